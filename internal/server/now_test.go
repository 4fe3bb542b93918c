package server

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
)

// TestAnswersHaveTheClockOfTheService: over HTTP and gRPC, errors included, and clients count from it.
func TestAnswersHaveTheClockOfTheService(t *testing.T) {
	r := serve(t, Options{Timers: newFake()})
	answer, err := http.Get("http://" + r.addr + "/v1/namespaces/default/timers/none")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := answer.Header.Get("Rouse-Now"); answer.StatusCode != http.StatusNotFound || got != epoch.String() {
		t.Errorf("%s, with the clock %q, want %v", answer.Status, got, epoch)
	}
	for name, call := range map[string]func(o grpc.CallOption) error{
		"list": func(o grpc.CallOption) error {
			_, err := r.timers().List(t.Context(), &rousev1.ListRequest{}, o)
			return err
		},
		"none": func(o grpc.CallOption) error {
			_, err := r.timers().Get(t.Context(), &rousev1.GetRequest{Name: "none"}, o)
			return err
		},
	} {
		var header metadata.MD
		_ = call(grpc.Header(&header))
		if got := header.Get(nowHeader); len(got) != 1 || got[0] != strconv.FormatInt(int64(epoch), 10) {
			t.Errorf("%s: the clock is %q", name, got)
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
