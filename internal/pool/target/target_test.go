package target

import (
	"errors"
	"testing"

	"github.com/rousehq/rouse"
)

// FuzzTarget: a target that is accepted names one pool and one key, and so does its canonical form, by which
// requests find the node of their key.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"pool:core/42", "pool:core/a/b", "pool:core/a%2Fb", "pool:core/%zz", "pool:core", "pool:/x", "pool:core/", "pool:core/%00", "POOL:core/x", "pool:core/ä%25"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, key, err := Parse(text)
		route, ok := Route(text)
		if err != nil {
			if !errors.As(err, new(*rouse.Invalid)) || ok {
				t.Errorf("%q: %v, and the route %q", text, err, route)
			}
			return
		}
		again, same, err := Parse(Of(name, key))
		if err != nil || again != name || same != key || !ok || route != Of(name, key) {
			t.Errorf("%q is %q %q, and then %q %q by %q, %v", text, name, key, again, same, route, err)
		}
	})
}
