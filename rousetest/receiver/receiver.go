// Package receiver is an HTTP receiver for tests of callbacks: it records requests, verifies signatures,
// and responds as configured, from a plain 200 to an endless body.
//
//	r := receiver.New(receiver.Options{})
//	defer r.Close()
//	r.Script(receiver.Status(503), receiver.RetryAfter(429, "2"))    // then the default, 200
//	// create a timer with the target r.URL()
//	a, err := r.Next(ctx)
//
// Waiting uses channels: nothing sleeps or polls. Memory is bounded, whatever arrives and whatever it
// responds.
package receiver

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse/sink/webhook"
)

// Options configure a receiver. Zero fields have the defaults that their comments name.
type Options struct {
	Addr    string   // where to listen; default a free port of 127.0.0.1
	Secrets []string // to verify signatures with; default none, and signatures are not looked at
	Answer  Answer   // when no script is left; default Status(200)

	// Manual makes every request wait for its Arrival.Reply; scripts and Answer are not used.
	Manual bool

	Keep    int // arrivals that wait for Next; further ones are counted only; default 4,096
	MaxBody int // bytes of a body that are kept; default 1 MiB

	// Ended is called when a reply has ended, with Replied and Status set, from the request's own goroutine.
	Ended func(a Arrival)
}

// Receiver is a running receiver.
type Receiver struct {
	opts     Options
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	running  sync.WaitGroup // the server and its requests
	arrivals chan *Arrival
	count    atomic.Int64
	dropped  atomic.Int64

	mu     sync.Mutex
	script []Answer
	closed bool
}

// Arrival is a request that came.
type Arrival struct {
	Time      time.Time // when its first byte came
	From      string    // address of the sender's end of the connection
	Method    string
	URL       string // path and query
	Header    http.Header
	Body      []byte
	Truncated bool  // the body was longer than MaxBody
	Broken    error // the body did not come to its end
	Signature error // nil if the signature holds, or none was asked for

	Replied time.Time // when the reply ended; for Options.Ended only
	Status  int       // of the reply; 0 if there was no proper one; for Options.Ended only

	reply chan Answer
}

// Reply answers an arrival of a manual receiver. It is called once; a request that has ended in the meantime
// is ignored.
func (a *Arrival) Reply(with Answer) { a.reply <- with }

// ErrClosed means that the receiver was closed.
var ErrClosed = errors.New("the receiver is closed")

// New starts a receiver; it panics if it cannot listen, like net/http/httptest.
func New(o Options) *Receiver {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Keep <= 0 {
		o.Keep = 4096
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.Answer == nil {
		o.Answer = Status(http.StatusOK)
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		panic("receiver: " + err.Error())
	}
	r := &Receiver{opts: o, listener: l, arrivals: make(chan *Arrival, o.Keep)}
	life, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.server = &http.Server{
		Handler:           http.HandlerFunc(r.serveArrival),
		BaseContext:       func(net.Listener) context.Context { return life },
		ConnContext:       withClock,
		ConnState:         resetClock,
		ReadHeaderTimeout: 30 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	r.running.Go(func() { _ = r.server.Serve(clockListener{l}) })
	return r
}

// URL returns the address of the receiver, such as "http://127.0.0.1:40000".
func (r *Receiver) URL() string { return "http://" + r.listener.Addr().String() }

// Script appends answers: each is used for one request, in the order in which they come.
func (r *Receiver) Script(answers ...Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = append(r.script, answers...)
}

// Next returns the next arrival, in the order in which their bodies were read. One that waits already is
// returned even if ctx has ended, or the receiver was closed.
func (r *Receiver) Next(ctx context.Context) (*Arrival, error) {
	select {
	case a, ok := <-r.arrivals:
		return r.arrivalOrClosed(a, ok)
	default:
	}
	select {
	case a, ok := <-r.arrivals:
		return r.arrivalOrClosed(a, ok)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *Receiver) arrivalOrClosed(a *Arrival, ok bool) (*Arrival, error) {
	if !ok {
		return nil, ErrClosed
	}
	return a, nil
}

// Count returns how many requests came, and how many of them Next will never return because too many waited.
func (r *Receiver) Count() (arrived, dropped int64) { return r.count.Load(), r.dropped.Load() }

// Close cuts all connections, whatever is under way on them, and waits for the receiver's end. It may be
// called twice.
func (r *Receiver) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	r.stop()
	_ = r.server.Close()
	r.running.Wait()
	if !again {
		close(r.arrivals)
	}
}

// serveArrival keeps a request and answers it.
func (r *Receiver) serveArrival(w http.ResponseWriter, req *http.Request) {
	if !r.enterRequest() {
		panic(http.ErrAbortHandler)
	}
	defer r.running.Done()
	a := r.readArrival(req)
	answer := r.opts.Answer
	if !r.opts.Manual {
		r.mu.Lock()
		if len(r.script) > 0 {
			answer, r.script = r.script[0], r.script[1:]
		}
		r.mu.Unlock()
	}
	r.count.Add(1)
	select {
	case r.arrivals <- a:
	default:
		r.dropped.Add(1)
	}
	watched := &statusWriter{ResponseWriter: w}
	if r.opts.Ended != nil {
		defer func() {
			done := *a
			done.Replied, done.Status = time.Now(), watched.status
			r.opts.Ended(done)
		}()
	}
	if r.opts.Manual {
		select {
		case answer = <-a.reply:
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	answer(watched, req)
}

// enterRequest counts a request as running, unless the receiver is being closed.
func (r *Receiver) enterRequest() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.running.Add(1)
	return true
}

func (r *Receiver) readArrival(req *http.Request) *Arrival {
	a := &Arrival{Time: firstByte(req.Context()), From: req.RemoteAddr, Method: req.Method, URL: req.URL.RequestURI(),
		Header: req.Header, reply: make(chan Answer, 1)}
	a.Body, a.Broken = io.ReadAll(io.LimitReader(req.Body, int64(r.opts.MaxBody)+1))
	if len(a.Body) > r.opts.MaxBody {
		a.Body, a.Truncated = a.Body[:r.opts.MaxBody], true
	}
	if len(r.opts.Secrets) > 0 {
		a.Signature = webhook.Verify(r.opts.Secrets, req.Header, a.Body, time.Now())
	}
	return a
}

// statusWriter notes the status of a reply.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(code int) {
	if code >= 200 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
