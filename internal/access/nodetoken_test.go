package access

import (
	"encoding/hex"
	"strconv"
	"testing"
	"time"
)

// TestNodeTokens has the token of the right node and time, and others.
func TestNodeTokens(t *testing.T) {
	a, other, none := &NodeTokens{Node: "a"}, &NodeTokens{Node: "b"}, &NodeTokens{Node: "a"}
	a.UseSecret([]byte("one"))
	other.UseSecret([]byte("two"))
	good, now := a.For("a", time.Now()), time.Now()
	p, err := a.Authenticate(t.Context(), &Credentials{Bearer: good})
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	control := NewControl(nil)
	ctx := With(t.Context(), p)
	if err := control.Require(ctx, NodesRead, "", "", nil); err != nil {
		t.Error(err)
	}
	for _, v := range []Verb{TimersCreate, TimersDelete, KeysCreate, Reveal, ClockAdvance, StatusRead, BackupRead} {
		if control.Require(ctx, v, "", "", nil) == nil {
			t.Errorf("a node may %s at another", v)
		}
	}
	for what, token := range map[string]string{"for another node": a.For("b", now), "of another store": other.For("a", now), "old": a.For("a", now.Add(-time.Hour)),
		"of the future": a.For("a", now.Add(time.Hour)), "cut": good[:len(good)-2], "longer": good + "z", "no token": "rn_", "without a time": "rn__00"} {
		if p, err := a.Authenticate(t.Context(), &Credentials{Bearer: token}); p != nil || err == nil {
			t.Errorf("a token %s is taken: %+v", what, p)
		}
	}
	if p, err := a.Authenticate(t.Context(), &Credentials{Bearer: "rk_x"}); p != nil || err != nil {
		t.Error("a key is not a token of a node")
	}
	of := hex.EncodeToString(sumNode(nil, "a", strconv.FormatInt(now.Unix(), 10)))
	for _, token := range []string{good, "rn_" + strconv.FormatInt(now.Unix(), 10) + "_" + of} {
		if p, err := none.Authenticate(t.Context(), &Credentials{Bearer: token}); p != nil || err == nil || none.For("a", now) != "" {
			t.Errorf("a node without a secret takes %s: %+v", token, p)
		}
	}
	a.UseSecret([]byte("three"))
	if p, err := a.Authenticate(t.Context(), &Credentials{Bearer: good}); p != nil || err == nil {
		t.Errorf("a token of the old secret is taken: %+v", p)
	}
}
