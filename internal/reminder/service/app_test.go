package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/access"
)

// identity authenticates every caller as a sidecar of some apps; with none, of all.
type identity []string

func (apps identity) Authenticate(context.Context, *access.Credentials) (*access.Principal, error) {
	scope := access.Everything()
	scope.Apps = apps
	return &access.Principal{ID: "key:sidecar", Grants: []access.Grant{{Role: access.Sidecar, Scope: scope}}}, nil
}

// enter returns the context of a call by a sidecar of some apps.
func (apps identity) enter(t *testing.T, control *access.Control) context.Context {
	t.Helper()
	gate := &access.Gate{Control: control, Authenticators: access.Chain{apps}}
	ctx, err := gate.Enter(t.Context(), "/rouse.reminder.v1.ReminderService/GetReminder", &access.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// hello is a stream of which the first message is all.
type hello struct {
	grpc.ServerStream
	ctx   context.Context
	first *reminderv1.SidecarStream
}

func (s *hello) Context() context.Context                     { return s.ctx }
func (s *hello) Recv() (*reminderv1.SidecarStream, error)     { return s.first, nil }
func (s *hello) Send(*reminderv1.ReminderServiceStream) error { return nil }

// TestASidecarActsAsItsOwnAppsOnly: no call lets it register as another app, or read, move and delete what is
// another one's, by whatever id.
func TestASidecarActsAsItsOwnAppsOnly(t *testing.T) {
	t.Parallel()
	refused := 0
	control := access.NewControl(func(access.Reason) { refused++ })
	h := open(t, func(o *Options) { o.Access = control })
	f := &sidecarServer{Service: h.service}
	of := func(app string) *reminderv1.Caller { return &reminderv1.Caller{AppId: app, Address: app} }
	any := identity(nil).enter(t, control)
	for _, app := range []string{"orders", "bills"} {
		if _, err := f.RegisterSidecar(any, &reminderv1.RegisterSidecarRequest{AppId: app, Address: app}); err != nil {
			t.Fatal(err)
		}
	}
	h.service.opts.Access = nil // the harness's own calls carry no principal
	own, other := h.connect(t, "orders", "orders"), h.connect(t, "bills", "bills")
	mine, theirs := h.make(t, own, &reminderv1.Reminder{InitialDelay: "1h"}), h.make(t, other, &reminderv1.Reminder{InitialDelay: "1h"})
	h.service.opts.Access = control

	calls := func(ctx context.Context, app, id string) map[string]error {
		_, register := f.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: app, Address: app})
		_, create := f.CreateReminder(ctx, &reminderv1.CreateReminderRequest{Caller: of(app), Reminder: &reminderv1.Reminder{InitialDelay: "1h"}})
		_, describe := f.DescribeTable(ctx, &reminderv1.DescribeTableRequest{AppId: app})
		_, get := f.GetReminder(ctx, &reminderv1.GetReminderRequest{ReminderId: id})
		_, subscribe := f.SubscribeReminder(ctx, &reminderv1.SubscribeReminderRequest{Caller: of(app), ReminderList: []string{id}})
		return map[string]error{"register": register, "create": create, "describe": describe, "get": get, "subscribe": subscribe}
	}
	orders := identity{"orders"}.enter(t, control)
	for what, err := range calls(orders, "orders", mine.ReminderId) {
		if err != nil {
			t.Errorf("%s as itself: %v", what, err)
		}
	}
	if refused != 0 {
		t.Errorf("%d calls as itself were refused", refused)
	}
	hidden := []string{"get", "delete"} // an id is answered as if no reminder had it
	results := calls(orders, "bills", theirs.ReminderId)
	_, results["delete"] = f.DeleteReminder(orders, &reminderv1.DeleteReminderRequest{ReminderId: theirs.ReminderId})
	_, results["describe all"] = f.DescribeTable(orders, &reminderv1.DescribeTableRequest{})
	results["connect"] = f.ConnectSidecar(&hello{ctx: orders, first: &reminderv1.SidecarStream{
		SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: of("bills")}}}})
	for what, err := range results {
		want := rouse.ErrForbidden
		if slices.Contains(hidden, what) {
			want = rouse.ErrNotFound
		}
		if !errors.Is(err, want) {
			t.Errorf("%s as another app: %v, want %v", what, err, want)
		}
	}
	if refused != len(results) {
		t.Errorf("%d refusals are counted, want %d", refused, len(results))
	}
	// As itself, it does not get another app's reminder either.
	_, err := f.SubscribeReminder(orders, &reminderv1.SubscribeReminderRequest{Caller: of("orders"), ReminderList: []string{theirs.ReminderId}})
	if status.Code(err) != codes.NotFound {
		t.Errorf("subscribe as itself to what is of another app: %v", err)
	}
	absent := theirs.ReminderId[:len(theirs.ReminderId)-8] + "aaaaaaaa"
	_, none := f.SubscribeReminder(orders, &reminderv1.SubscribeReminderRequest{Caller: of("orders"), ReminderList: []string{absent}})
	if got, want := fmt.Sprint(err), strings.ReplaceAll(fmt.Sprint(none), absent, theirs.ReminderId); got != want {
		t.Errorf("another app's reminder is told from one that does not exist: %q, %q", got, want)
	}
	if _, err := f.GetReminder(any, &reminderv1.GetReminderRequest{ReminderId: theirs.ReminderId}); err != nil {
		t.Errorf("what was refused has had an effect: %v", err)
	}
	if _, err := f.DeleteReminder(orders, &reminderv1.DeleteReminderRequest{ReminderId: mine.ReminderId}); err != nil {
		t.Errorf("delete as itself: %v", err)
	}
}
