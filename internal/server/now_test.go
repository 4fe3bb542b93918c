package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
)

// TestAnswersHaveTheClockOfTheService: every HTTP route and gRPC method sends the clock, even with errors,
// and clients use it.
func TestAnswersHaveTheClockOfTheService(t *testing.T) {
	r := serve(t, Options{Timers: newFake()})
	answers := append(routes, route{method: "GET", path: "/nowhere"}, route{method: "PUT", path: "/v1/nodes"})
	for _, at := range answers {
		path := regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(at.path, "none")
		ctx, stop := context.WithTimeout(t.Context(), poll.Patience)
		request, err := http.NewRequestWithContext(ctx, at.method, "http://"+r.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("%s %s: %v", at.method, path, err)
		}
		stop() // some of them do not end by themselves
		_ = answer.Body.Close()
		if got := answer.Header.Get("Rouse-Now"); got != epoch.String() {
			t.Errorf("%s %s: %s, with the clock %q, want %v", at.method, path, answer.Status, got, epoch)
		}
	}
	conn := r.dial()
	for name, service := range r.server.grpc.GetServiceInfo() {
		if !strings.HasPrefix(name, "rouse.") {
			continue
		}
		for _, m := range service.Methods {
			if got := headerOf(t, conn, "/"+name+"/"+m.Name).Get(nowHeader); len(got) != 1 || got[0] != strconv.FormatInt(int64(epoch), 10) {
				t.Errorf("%s/%s: the clock is %q", name, m.Name, got)
			}
		}
	}
	c, err := client.Dial(r.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if off := time.Since(c.Now()).Abs(); off > time.Minute {
		t.Errorf("before an answer the client's clock is off by %v", off)
	}
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if off := epoch.Time().Sub(c.Now()).Abs(); off > time.Minute {
		t.Errorf("after an answer it is off by %v", off)
	}
}

// headerOf calls a method with one empty message and returns the header of the response.
func headerOf(t *testing.T, conn *grpc.ClientConn, method string) metadata.MD {
	ctx, stop := context.WithTimeout(t.Context(), poll.Patience)
	defer stop()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		err = errors.Join(stream.SendMsg(&emptypb.Empty{}), stream.CloseSend())
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	h, err := stream.Header()
	if err != nil {
		t.Errorf("%s: no header: %v", method, err)
	}
	return h
}
