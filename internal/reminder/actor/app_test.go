package actor

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/access"
)

// greeting is a stream of which the first message is all.
type greeting struct {
	grpc.ServerStream
	ctx   context.Context
	first *reminderv1.ActorHostStream
}

func (s *greeting) Context() context.Context                   { return s.ctx }
func (s *greeting) Recv() (*reminderv1.ActorHostStream, error) { return s.first, nil }
func (s *greeting) Send(*reminderv1.PlacementStream) error     { return nil }

// TestAHostIsOfItsOwnAppsOnly: no call is about an app that the caller's identity does not have.
func TestAHostIsOfItsOwnAppsOnly(t *testing.T) {
	w := open(t, 1, time.Second)
	f := &actorServer{Service: w.instances[0].Service}
	f.opts.Access = access.NewControl(nil)
	as := func(apps ...string) context.Context {
		scope := access.Everything()
		scope.Apps = apps
		return access.With(t.Context(), &access.Principal{ID: "key:host", Grants: []access.Grant{{Role: access.Sidecar, Scope: scope}}})
	}
	calls := func(ctx context.Context) map[string]error {
		a := &reminderv1.Actor{ActorType: "Cart", ActorId: "1"}
		_, register := f.RegisterActorHost(ctx, &reminderv1.RegisterActorHostRequest{AppId: app, Address: "a", ActorTypes: []string{"Cart"}})
		connect := f.ConnectActorHost(&greeting{ctx: ctx, first: &reminderv1.ActorHostStream{
			HostMessage: &reminderv1.ActorHostStream_Hello{Hello: &reminderv1.Caller{AppId: app, Address: "none"}}}})
		_, locate := f.LocateActor(ctx, &reminderv1.LocateActorRequest{AppId: app, Actor: a})
		_, deactivate := f.DeactivateActor(ctx, &reminderv1.DeactivateActorRequest{AppId: app, Actor: a})
		_, list := f.ListActorReminders(ctx, &reminderv1.ListActorRemindersRequest{AppId: app, Actor: a})
		return map[string]error{"register": register, "connect": connect, "locate": locate, "deactivate": deactivate, "list": list}
	}
	for what, err := range calls(as("other", "sho")) {
		if !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("%s as another app: %v", what, err)
		}
	}
	for _, apps := range [][]string{{app}, {"sh*"}, nil} {
		for what, err := range calls(as(apps...)) {
			if errors.Is(err, rouse.ErrForbidden) {
				t.Errorf("%s as one of %q: %v", what, apps, err)
			}
		}
	}
}
