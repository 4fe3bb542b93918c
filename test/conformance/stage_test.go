//go:build unix

package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/harness"
)

// stage is what a runner needs: a development server, a proxy in front of it that causes faults, a receiver
// of callbacks, and the controls of both.
type stage struct {
	proxy, controls, receiver *httptest.Server

	mu       sync.Mutex
	fault    fault
	requests int        // since the step began
	conns    []net.Conn // that clients made
	arrived  []delivery
	changed  chan struct{} // closed when one arrives
}

// fault is what happens to the next requests.
type fault struct {
	Kind  string `json:"kind"` // as clients/conformance has them
	Times int    `json:"times"`
}

// delivery is a callback, as runners get it.
type delivery struct {
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// newStage starts a stage, which ends with the test.
func newStage(t *testing.T) *stage {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(harness.TempDir(t), "addresses")
	p := harness.NewProgram(t, binary)
	p.Run([]string{"dev", "--listen", "127.0.0.1:0", "--admin", "", "--address-file", file}, nil, nil)
	var text []byte
	poll.Until(t, "rouse listens", func() bool {
		text, err = os.ReadFile(file)
		return err == nil
	})
	address := strings.Fields(string(text))[1] // after "api"

	s := &stage{changed: make(chan struct{})}
	s.proxy = httptest.NewUnstartedServer(s.front(address))
	s.proxy.Config.Protocols = new(http.Protocols)
	s.proxy.Config.Protocols.SetHTTP1(true)
	s.proxy.Config.Protocols.SetUnencryptedHTTP2(true) // gRPC
	s.proxy.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, c)
		return context.WithValue(ctx, connKey{}, c)
	}
	s.proxy.Start()
	s.controls = httptest.NewServer(s.control())
	s.receiver = httptest.NewServer(http.HandlerFunc(s.receive))
	for _, server := range []*httptest.Server{s.proxy, s.controls, s.receiver} {
		t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	}
	return s
}

type connKey struct{}

// front forwards requests to the server, and breaks their connections as the fault demands.
func (s *stage) front(server string) http.Handler {
	target := &url.URL{Scheme: "http", Host: server}
	transports := [3]*http.Transport{1: {}, 2: {Protocols: new(http.Protocols)}}
	transports[2].Protocols.SetUnencryptedHTTP2(true)
	proxies := [3]*httputil.ReverseProxy{}
	for version := 1; version <= 2; version++ {
		proxies[version] = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transports[version], FlushInterval: -1}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, proxy := s.next(), proxies[r.ProtoMajor]
		if kind == "" {
			_ = http.NewResponseController(w).EnableFullDuplex() // or it may end an answer that begins before it has read the end of the request
			proxy.ServeHTTP(w, r)
			return
		}
		switch kind {
		case "refuse", "unavailable", "unavailable_until":
			refuse(w, r, kind)
			return
		case "redirect", "page", "page_401", "page_403", "page_404", "broken":
			answerFromBetween(w, kind)
			return
		case "cut_end":
			answer := httptest.NewRecorder()
			proxy.ServeHTTP(answer, r)
			copyWithoutEnd(w, answer)
			return
		case "cut_answer":
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		_ = r.Context().Value(connKey{}).(net.Conn).Close() //nolint:errcheck // ConnContext sets it
		panic(http.ErrAbortHandler)
	})
}

// refuse answers as a server that has too much load, or that is not available, as the kind of fault demands.
func refuse(w http.ResponseWriter, r *http.Request, kind string) {
	code, status, err := "overloaded", http.StatusTooManyRequests, rouse.ErrOverloaded
	if kind != "refuse" {
		code, status, err = "unavailable", http.StatusServiceUnavailable, rouse.ErrUnavailable
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Content-Type", api.ProblemType)
		w.Header().Set("Retry-After", "1")
		if kind == "unavailable_until" { // two seconds: a date has no fraction
			w.Header().Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code})
		return
	}
	st := rousev1.ErrorToStatus(&rouse.RetryAfter{Err: err, After: time.Second})
	details, _ := proto.Marshal(st.Proto())
	for name, value := range map[string]string{"Content-Type": "application/grpc", "Grpc-Status": strconv.Itoa(int(st.Code())),
		"Grpc-Message": st.Message(), "Grpc-Status-Details-Bin": base64.RawStdEncoding.EncodeToString(details)} {
		w.Header().Set(name, value)
	}
}

// answerFromBetween answers as something between client and server does that has not asked the server. A
// client that follows the redirect gets an answer of the server, to another request.
func answerFromBetween(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", "text/html")
	switch kind {
	case "redirect":
		w.Header().Set("Location", "/v1/version")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "page":
		_, _ = io.WriteString(w, "<h1>We are back soon</h1>")
	case "page_401", "page_403", "page_404":
		status, _ := strconv.Atoi(strings.TrimPrefix(kind, "page_"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<h1>It is not here</h1>")
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// copyWithoutEnd forwards an answer that consists of lines, or of the messages of gRPC, without the last one.
// To HTTP, it is complete.
func copyWithoutEnd(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	body, end := answer.Body.Bytes(), 0
	if result := answer.Result(); strings.HasPrefix(result.Header.Get("Content-Type"), "application/grpc") {
		for at := 0; at < len(body); { // a flag and the length precede each message
			end, at = at, at+5+int(binary.BigEndian.Uint32(body[at+1:]))
		}
		for name, values := range result.Trailer {
			answer.Header()[http.TrailerPrefix+name] = values
		}
	} else {
		end = bytes.LastIndexByte(bytes.TrimSuffix(body, []byte("\n")), '\n') + 1
	}
	for name, values := range answer.Header() {
		if name != "Content-Length" && name != "Trailer" {
			w.Header()[name] = values
		}
	}
	_, _ = w.Write(body[:end])
}

// next counts a request, and returns the fault that happens to it.
func (s *stage) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.fault.Times == 0 {
		return ""
	}
	s.fault.Times--
	return s.fault.Kind
}

// begin begins a step.
func (s *stage) begin(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.requests = f, 0
	if f.Kind == "cut_all" {
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.conns = nil
	}
}

// made returns how many requests have come in this step.
func (s *stage) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// deliveries returns the callbacks that came, once there are count of them.
func (s *stage) deliveries(ctx context.Context, count int) ([]delivery, error) {
	for {
		s.mu.Lock()
		list, changed := append([]delivery{}, s.arrived...), s.changed
		s.mu.Unlock()
		if len(list) >= count {
			return list, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// receive keeps a callback. Its answer is the status that the path names.
func (s *stage) receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d := delivery{Method: r.Method, Headers: map[string]string{}, Body: string(body)}
	for name := range r.Header {
		d.Headers[name] = r.Header.Get(name)
	}
	s.mu.Lock()
	s.arrived = append(s.arrived, d)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if status, err := strconv.Atoi(strings.Trim(r.URL.Path, "/")); err == nil {
		w.WriteHeader(status)
	}
}

// control is what runners in other languages call.
func (s *stage) control() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("POST /begin", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Fault fault }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.begin(body.Fault)
	})
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]int{"requests": s.made()}) })
	mux.HandleFunc("GET /deliveries", func(w http.ResponseWriter, r *http.Request) {
		count, _ := strconv.Atoi(r.URL.Query().Get("count"))
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		list, err := s.deliveries(ctx, count)
		if err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
			return
		}
		answer(w, list)
	})
	return mux
}
