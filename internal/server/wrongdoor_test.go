package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// listenOnce returns a listener on loopback that is closed at the end of the test.
func listenOnce(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// callBoth makes a call and opens a stream at an address, and returns their errors.
func callBoth(t *testing.T, address string, creds credentials.TransportCredentials) [2]error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, unary := rousev1.NewTimersClient(conn).Create(t.Context(), &rousev1.CreateRequest{Name: "a", Spec: &rousev1.Spec{Payload: []byte(strings.Repeat("x", 1<<20))}})
	stream, err := rousev1.NewFiresClient(conn).Subscribe(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	return [2]error{unary, err}
}

// TestAWaitingServerAnswersInTheProtocolOfTheRequest: until the store is there, gRPC calls get a status with
// a delay, at the admin port a cure, and HTTP gets what it always gets.
func TestAWaitingServerAnswersInTheProtocolOfTheRequest(t *testing.T) {
	s, client := secured(t, Options{Timers: newFake()}) // for its certificates
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			front, admin := listenOnce(t), listenOnce(t)
			config, creds := s.server.opts.TLS, credentials.NewTLS(client())
			scheme := "https://"
			if !secure {
				config, creds, scheme = nil, insecure.NewCredentials(), "http://"
			}
			stop := WaitAt(front, admin, config, func() error { return errAway }, slog.New(slog.DiscardHandler))
			defer stop()
			for _, err := range callBoth(t, front.Addr().String(), creds) {
				got := rousev1.StatusToError(status.Convert(err))
				var after *rouse.RetryAfter
				if status.Code(err) != codes.Unavailable || !errors.Is(got, rousev1.ErrStarting) || !errors.Is(got, rouse.ErrUnavailable) ||
					!errors.As(got, &after) || after.After != time.Second || strings.Contains(err.Error(), "secret") {
					t.Errorf("the API: %v", err)
				}
			}
			for _, err := range callBoth(t, admin.Addr().String(), creds) {
				checkWrongPort(t, front, err)
			}
			web := &http.Client{Transport: &http.Transport{TLSClientConfig: client(), DisableKeepAlives: true}}
			for url, want := range map[string]int{front.Addr().String() + "/v1/version": 503, admin.Addr().String() + "/readyz": 503, admin.Addr().String() + "/livez": 200} {
				res, err := web.Get(scheme + url)
				if err != nil {
					t.Fatal(err)
				}
				if res.Body.Close(); res.StatusCode != want {
					t.Errorf("%s: %s", url, res.Status)
				}
			}
		})
	}
}

func checkWrongPort(t *testing.T, api net.Listener, err error) {
	t.Helper()
	_, port, _ := net.SplitHostPort(api.Addr().String())
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "admin port") || !strings.Contains(err.Error(), "call port "+port) {
		t.Errorf("the admin port: %v", err)
	}
}

// webClients returns one that speaks HTTP/1.1, and one that speaks HTTP/2 in plain text.
func webClients() []*http.Client {
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	return []*http.Client{{Transport: &http.Transport{}}, {Transport: two}}
}

// TestTheAdminPortRefusesCallsInGRPC: a client that was given the wrong port reads which one is right, over
// HTTP, too, and in HTTP/2 other requests get what they get in HTTP/1.1.
func TestTheAdminPortRefusesCallsInGRPC(t *testing.T) {
	front, admin := listenOnce(t), listenOnce(t)
	ctx, stop := context.WithCancel(t.Context())
	s := New(Options{Timers: newFake()})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, front, admin) }()
	for _, err := range callBoth(t, admin.Addr().String(), insecure.NewCredentials()) {
		checkWrongPort(t, front, err)
	}
	_, port, _ := net.SplitHostPort(front.Addr().String())
	for _, web := range webClients() {
		for path, want := range map[string]string{"/livez": "200 ok", "/nothing": "404 404 page", "/v1/timers": "404 ", "/version": "200 {"} {
			res, err := web.Get("http://" + admin.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if res.Body.Close(); !strings.HasPrefix(fmt.Sprint(res.StatusCode, " ", string(body)), want) {
				t.Errorf("%s over %s: %s %s, want %s", path, res.Proto, res.Status, body, want)
			}
			if strings.HasPrefix(path, "/v1/") && !strings.Contains(string(body), "call port "+port) {
				t.Errorf("%s over %s does not name the port of the API: %s", path, res.Proto, body)
			}
		}
		web.CloseIdleConnections()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
