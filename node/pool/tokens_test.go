package pool

import (
	"testing"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/pool"
)

// TestTokensOfWorkers checks that the token of a group gives its requests and no others, that it stays the
// same as long as the group is there, and that it and its streams end with the group.
func TestTokensOfWorkers(t *testing.T) {
	shared, apart := pool.Config{Namespaces: pool.Shared}, pool.Config{Namespaces: pool.Apart}
	known := newTokens()
	control := access.NewControl(nil)
	may := func(token, namespace, target string, verb access.Verb) bool {
		t.Helper()
		p, err := known.Authenticate(t.Context(), &access.Credentials{Bearer: token})
		if err != nil {
			return false
		}
		return control.Allows(access.With(t.Context(), p), verb, namespace, target, nil)
	}
	a := known.tokenOf("core", apart.Group("a", "4*"))
	all := known.tokenOf("core", shared.Group("a", "42"))
	if again := known.tokenOf("core", apart.Group("a", "4*")); again != a {
		t.Error("a group has two tokens")
	}
	for _, c := range []struct {
		token, namespace, target string
		verb                     access.Verb
		want                     bool
	}{
		{a, "a", "pool:core/4%2A", access.FiresSubscribe, true},
		{a, "a", "pool:core/4%2A", access.FiresReport, true},
		{a, "a", "pool:core/4%2A", access.TimersRead, false},
		{a, "a", "pool:core/42", access.FiresSubscribe, false},
		{a, "a", "pool:other/4%2A", access.FiresSubscribe, false},
		{a, "b", "pool:core/4%2A", access.FiresSubscribe, false},
		{a, "", "pool:core/4%2A", access.FiresSubscribe, false},
		{all, "", "pool:core/42", access.FiresSubscribe, true},
		{all, "", "pool:core/4", access.FiresSubscribe, false},
		{"rw_other", "a", "pool:core/4%2A", access.FiresSubscribe, false},
	} {
		if got := may(c.token, c.namespace, c.target, c.verb); got != c.want {
			t.Errorf("%s in %q for %s: %v", c.verb, c.namespace, c.target, got)
		}
	}
	if p, err := known.Authenticate(t.Context(), &access.Credentials{Bearer: "rk_x"}); p != nil || err != nil {
		t.Errorf("a key is %v, %v", p, err)
	}
	p, err := known.Authenticate(t.Context(), &access.Credentials{Bearer: a})
	if err != nil {
		t.Fatal(err)
	}
	stream, cancel := control.Bound(t.Context(), p)
	defer cancel()
	known.endToken("core", apart.Group("a", "4*"))
	<-stream.Done()
	if may(a, "a", "pool:core/4%2A", access.FiresSubscribe) || !may(all, "", "pool:core/42", access.FiresSubscribe) {
		t.Error("the token of a group that ended is valid, or another one is not")
	}
	if known.tokenOf("core", apart.Group("a", "4*")) == a {
		t.Error("the group has its old token again")
	}
	known.endToken("core", "unknown")
}
