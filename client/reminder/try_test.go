package reminder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
)

// A create whose outcome is not known is not made again: that is for the caller to decide.
func TestCreateIsNotMadeTwice(t *testing.T) {
	h := open(t, 2)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.row("B2", "me", h.inns[1].address)
	h.sees(c, 2)
	h.mu.Lock()
	for _, i := range h.inns {
		i.after, i.refuse = true, func(method string) error {
			if method == "Create" {
				return status.Error(codes.Unavailable, "lost")
			}
			return nil
		}
	}
	h.mu.Unlock()
	if _, err := c.Create(t.Context(), Reminder{}); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("Create returned %v", err)
	}
	if n := len(h.inns[0].called("Create")) + len(h.inns[1].called("Create")); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// A delete is retried; it is no error if its first try has deleted the reminder.
func TestDeleteIsMadeAgain(t *testing.T) {
	h := open(t, 2)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 2)
	made, err := c.Create(t.Context(), Reminder{})
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.inns[0].after, h.inns[0].refuse = true, func(method string) error {
		if method == "Delete" {
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}
	h.mu.Unlock()
	if inFlight, err := c.Delete(t.Context(), made.ID); err != nil || !inFlight {
		t.Error(inFlight, err)
	}
	if len(h.inns[0].called("Delete")) != 1 || len(h.inns[1].called("Delete")) != 1 {
		t.Error("it should have been tried at both")
	}
}

// A call that never left the process is made elsewhere, also one that must not be made twice.
func TestWhatWasNotSentIsSentElsewhere(t *testing.T) {
	h := open(t, 2)
	fails := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/CreateReminder") && conn.Target() == h.inns[0].address {
			return status.Error(codes.Unavailable, "there is no connection")
		}
		return call(ctx, method, request, reply, conn, opts...)
	}
	c := h.client(h.inns[0].address, func(o *Options) { o.Dial = []grpc.DialOption{grpc.WithChainUnaryInterceptor(fails)} })
	h.row("B1", "me", h.inns[0].address)
	h.row("B2", "me", h.inns[1].address)
	h.sees(c, 2)
	for range 4 {
		if _, err := c.Create(t.Context(), Reminder{}); err != nil {
			t.Error(err)
		}
	}
	if a, b := len(h.inns[0].called("Create")), len(h.inns[1].called("Create")); a != 0 || b != 4 {
		t.Errorf("the instances were asked %d and %d times", a, b)
	}
}

// The client follows the service's instructions: wait for a bucket, or go to its instance.
func TestClientFollowsInstructions(t *testing.T) {
	h := open(t, 3)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 3)
	asked := 0
	h.mu.Lock()
	h.inns[0].refuse = func(method string) error {
		if method != "Create" {
			return nil
		}
		switch asked++; asked {
		case 1:
			return reasoned(codes.Unavailable, "NO_BUCKET", nil)
		case 2:
			return reasoned(codes.FailedPrecondition, "NOT_REGISTERED", nil)
		}
		h.mu.Lock() // another instance has it, and the client does not know yet
		defer h.mu.Unlock()
		h.rows[0].RemSerInstance = h.inns[2].address
		return reasoned(codes.FailedPrecondition, "WRONG_INSTANCE", map[string]string{"instances": h.inns[2].address})
	}
	h.mu.Unlock()
	if made, err := c.Create(t.Context(), Reminder{}); err != nil || made.ID == "" {
		t.Error(made, err)
	}
	if got := len(h.inns[2].called("Create")); got == 0 || asked < 3 {
		t.Errorf("the first was asked %d times, the one that it named %d", asked, got)
	}
}

// A wrong input is reported without a retry.
func TestWrongInput(t *testing.T) {
	h := open(t, 1)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 1)
	h.mu.Lock()
	h.inns[0].refuse = func(method string) error { return status.Error(codes.InvalidArgument, "no") }
	h.mu.Unlock()
	var inv *rouse.Invalid
	if _, err := c.Create(t.Context(), Reminder{}); !errors.As(err, &inv) || len(h.inns[0].called("Create")) != 1 {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Create(ctx, Reminder{}); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Reminders are moved in parts that the service takes, and each has an outcome.
func TestSubscribe(t *testing.T) {
	h := open(t, 1)
	c := h.client(h.inns[0].address, nil)
	h.row("B1", "me", h.inns[0].address)
	h.sees(c, 1)
	ids := []string{"busy"}
	for n := range 1500 {
		ids = append(ids, fmt.Sprint("r", n))
	}
	moved, err := c.Subscribe(t.Context(), ids...)
	if err != nil || len(moved) != len(ids) || len(h.inns[0].called("Subscribe")) != 2 {
		t.Fatal(len(moved), err)
	}
	if m := moved[0]; m.Asked != "busy" || m.ID != "" || status.Code(m.Err) != codes.Aborted {
		t.Errorf("%+v", m)
	}
	if m := moved[1200]; m.Asked != "r1199" || m.ID != "new-r1199" || m.Err != nil {
		t.Errorf("%+v", m)
	}
}

// The table has the instance of a reminder's bucket.
func TestTableHolder(t *testing.T) {
	h := &fakeService{generation: 1}
	for _, r := range []struct{ bucket, instance string }{{"B1", "a:1"}, {"B2", "b:1"}} {
		h.t = t
		h.row(r.bucket, "me", r.instance)
	}
	table := tableOf(h.update())
	for id, want := range map[string]string{
		"reminder||B||1||" + vector: "a:1", "reminder||B||100000||" + vector: "a:1", "reminder||B||100001||" + vector: "b:1",
		"reminder||B||200001||" + vector: "", "reminder||B||1||aaaaaaaa": "", "reminder||A||1||" + vector: "", "reminder||B||x||" + vector: "", "x": "",
	} {
		if got := table.holdingInstance(id); got != want {
			t.Errorf("%s is at %q, want %q", id, got, want)
		}
	}
}
