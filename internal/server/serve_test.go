package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/server/openapitest"
)

// traffic checks every answer of the tests against the description of the API.
var traffic = openapitest.New()

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, fault := range traffic.Faults() {
			fmt.Println("not as api/openapi.yaml has it:", fault)
			code = 1
		}
		os.Exit(code)
	}))
}

// running is a server on loopback.
type running struct {
	server     *Server
	t          testing.TB
	addr       string
	admin      string
	stop       func() // begins to stop
	stopped    chan error
	waitOnce   sync.Once
	runningErr error
}

// serve runs a server until the test ends.
func serve(t testing.TB, o Options) *running {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	front, admin := listen(), listen()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, addr: front.Addr().String(), admin: admin.Addr().String(), stop: cancel, stopped: make(chan error, 1)}
	s := New(o)
	s.http.Handler = traffic.Handler(s.http.Handler)
	r.server = s
	go func() { r.stopped <- s.Run(ctx, front, admin) }()
	t.Cleanup(func() {
		cancel()
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// wait returns the result of Run.
func (r *running) wait() error {
	r.waitOnce.Do(func() { r.runningErr = <-r.stopped })
	return r.runningErr
}

// dial returns a gRPC connection that is closed before the server stops.
func (r *running) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

func (r *running) timers() rousev1.TimersClient { return rousev1.NewTimersClient(r.dial()) }

// connect opens a plain TCP connection.
func (r *running) connect() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}
