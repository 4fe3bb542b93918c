package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/transport"
)

// WaitAt serves the listeners of the API and of operators until the returned function is called. The API
// answers that it is unavailable, in the protocol of the request; health with the reason for waiting.
// Afterwards the listeners can be passed to Run. Listeners may be nil, and have to come from net.Listen.
// secure is their TLS, as of Options.
func WaitAt(apiListener, adminListener net.Listener, secure *tls.Config, why func() error,
	log *slog.Logger) (stop func()) {
	var stops []func()
	admin := inBoth(waitingHealth(why), wrongPort(apiListener))
	for l, h := range map[net.Listener]http.Handler{apiListener: inBoth(unavailableHandler(why), startingError),
		adminListener: admin} {
		if l != nil {
			stops = append(stops, serveUntil(l, secure, h, log))
		}
	}
	return sync.OnceFunc(func() {
		for _, stop := range stops {
			stop()
		}
	})
}

// inBoth returns a handler that refuses gRPC calls in gRPC, and passes all other requests on.
func inBoth(other http.Handler, refusal func() error) http.Handler {
	calls := newRefusingGRPC(refusal)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// startingError refuses a gRPC call while the node waits for its store or queue. The reason is for operators:
// it can name a server.
func startingError() error {
	return &rouse.RetryAfter{Err: rousev1.ErrStarting, After: again}
}

// unavailableHandler responds to every request with 503 unavailable.
func unavailableHandler(why func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := problemOf(rouse.Unavailable(why()))
		body, err := api.Encode(&p)
		if err != nil {
			body = nil // cannot happen: it contains only text
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(again/time.Second)))
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(p.Status)
		_, _ = w.Write(body)
	})
}

// waitingHealth serves operators: the process is alive but not ready.
func waitingHealth(why func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", newProbeHandler(func() error { return nil }, nil))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, why().Error()+"\n")
	})
	return mux
}

// serveUntil serves HTTP on a listener until stop is called, and leaves it open.
func serveUntil(l net.Listener, secure *tls.Config, h http.Handler, log *slog.Logger) (stop func()) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: protocols, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: transport.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	lent := &lent{Listener: l}
	var serving sync.WaitGroup
	serving.Go(func() {
		if secure != nil {
			s.TLSConfig = secure.Clone() // each server adds its protocols to it
			_ = s.ServeTLS(lent, "", "")
			return
		}
		_ = s.Serve(lent)
	})
	return func() {
		lent.returnListener()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
		serving.Wait()
		lent.clearDeadline()
	}
}

// lent is a listener that stays open when its server stops.
type lent struct {
	net.Listener
	over atomic.Bool
}

var errGivenBack = errors.New("the listener was given back")

// Accept returns connections until stop is called.
func (l *lent) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && l.over.Load() {
		return nil, errGivenBack
	}
	return conn, err
}

// Close leaves the listener open.
func (l *lent) Close() error { return nil }

// setAcceptDeadline sets when Accept fails, if the listener can do that.
func (l *lent) setAcceptDeadline(t time.Time) {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(t)
	}
}

func (l *lent) returnListener() {
	l.over.Store(true)
	l.setAcceptDeadline(time.Unix(1, 0))
}

func (l *lent) clearDeadline() { l.setAcceptDeadline(time.Time{}) }
