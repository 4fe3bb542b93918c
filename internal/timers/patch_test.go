package timers

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// TestAPatchNeedsToSeeTheTimer: who may write timers, but not see what is in them, does not send a payload
// elsewhere by changing the target.
func TestAPatchNeedsToSeeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		shared := access.NewShared(s, slog.New(slog.DiscardHandler))
		control := access.NewControl(nil)
		roles := access.NewRoles(shared, control, access.NewKeys(shared, control, slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
		ts := running(t, s, rejecting(), Options{Access: control})
		system := access.AsSystem(t.Context())
		key := rouse.Key{Namespace: "n", Name: "a"}
		spec := rouse.Spec{Schedule: "@every 3h", Target: "stream:x", Payload: []byte("secret"), ContentType: "text/plain"}
		results, err := ts.Put(system, []Put{{Key: key, Spec: spec}})
		if err = errors.Join(err, firstError(results)); err != nil {
			t.Fatal(err)
		}
		elsewhere := PatchRequest{Change: func(s rouse.Spec) (rouse.Spec, error) {
			s.Target = "stream:y"
			return s, nil
		}}
		for role, verbs := range map[string][]access.Verb{"blind": {access.TimersRead, access.TimersCreate},
			"seeing": {access.TimersRead, access.TimersCreate, access.Reveal}, "looking": {access.TimersRead, access.Reveal}} {
			if err := roles.Put(system, access.Role{Name: role, Verbs: verbs}); err != nil {
				t.Fatal(err)
			}
			ctx := access.With(t.Context(), &access.Principal{ID: "key:" + role, Grants: []access.Grant{
				{Role: role, Scope: access.Scope{Namespaces: []string{"n"}}}}})
			for _, validate := range []bool{true, false} {
				elsewhere.Validate = validate
				if _, err := ts.Patch(ctx, key, elsewhere); errors.Is(err, rouse.ErrForbidden) != (role != "seeing") {
					t.Errorf("the role %s: %v", role, err)
				}
			}
		}
		if is, err := ts.Get(system, key); err != nil || is.Spec.Target != "stream:y" || string(is.Spec.Payload) != "secret" {
			t.Errorf("%+v, %v", is.Spec, err)
		}
	})
}
