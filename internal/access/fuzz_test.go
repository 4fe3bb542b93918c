package access

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/store/mem"
)

// FuzzBearer: what is taken for a key is exactly one, and a header with more than one token is refused.
func FuzzBearer(f *testing.F) {
	key := GenerateKey()
	for _, text := range []string{"Bearer " + key, "bEARER  " + key + " ", "Bearer " + key + "," + key, "Bearer\t" + key, "Basic " + key, key, "", "Bearer rk_", "Bearer " + key + "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := Bearer([]string{header})
		if err != nil {
			if token != "" {
				t.Errorf("%q is refused, and has the token %q", header, token)
			}
			return
		}
		if token == "" || strings.ContainsAny(token, " ,\t") || !strings.HasSuffix(strings.TrimRight(header, " "), token) {
			t.Errorf("%q has the token %q", header, token)
		}
		if id, secret, ok := splitKey(token); ok && (keyPrefix+id+"_"+secret != token || len(id) != idLength || len(secret) != secretLen) {
			t.Errorf("%q is taken for the key %q", token, id)
		}
		if two, err := Bearer([]string{header, header}); err == nil {
			t.Errorf("two headers have the token %q", two)
		}
	})
}

// FuzzScope: a scope that is accepted holds nothing outside its namespaces, and covers what it holds.
func FuzzScope(f *testing.F) {
	f.Add("own", "stream:a", "own", "stream:a")
	f.Add("own*", "https://a.example/*", "own-1", "https://a.example/x")
	f.Add("*", "*", "_rouse", "")
	f.Add("a*", "stream:*", "b", "stream:")
	f.Fuzz(func(t *testing.T, namespaces, targets, namespace, target string) {
		s := Scope{Namespaces: []string{namespaces}, Targets: []string{targets}}
		if s.Check() != nil || !s.includesTimer(namespace, target, nil) {
			return
		}
		for pattern, text := range map[string]string{namespaces: namespace, targets: target} {
			if fixed, prefix := strings.CutSuffix(pattern, "*"); prefix && !strings.HasPrefix(text, fixed) || !prefix && text != pattern {
				t.Errorf("%q holds %q", pattern, text)
			}
		}
		if one := (Scope{Namespaces: []string{namespace}, Targets: []string{target}}); !strings.Contains(namespace+target, "*") && !s.coversScope(&one) {
			t.Errorf("%v holds %q %q, and does not cover it", s, namespace, target)
		}
	})
}

// FuzzSession: no text but that of a session has a credential.
func FuzzSession(f *testing.F) {
	m := join(f, mem.New())
	s := NewSessions(m.shared, nil, nil)
	now := time.Now()
	s.UseKey(sessionKey, time.Time{})
	text, err := s.Begin("rk_x", someone, now.Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	const shared = "ROUSE_FUZZ_SESSION" // workers of the fuzzer are processes of their own, which get the seeds of the first one
	if first := os.Getenv(shared); first != "" {
		text = first
	}
	f.Setenv(shared, text)
	for _, text := range []string{text, text[1:], text + "A", strings.ToLower(text), "", "AAAA"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, other string) {
		if got := s.credential(other, now); got != "" && strings.NewReplacer("\r", "", "\n", "").Replace(other) != text {
			t.Errorf("%q has the credential %q", other, got)
		}
		if got := s.credential(other, now.Add(2*time.Hour)); got != "" {
			t.Errorf("%q has the credential %q after its end", other, got)
		}
	})
}

// FuzzRole: a role that is accepted has known verbs, each once, and takes nothing from a built-in one.
func FuzzRole(f *testing.F) {
	f.Add("deployer", "timers.create,timers.delete")
	f.Add("admin", "timers.read")
	f.Add("x", "timers.read,timers.read")
	f.Add("X y", "*")
	f.Add("x", "")
	f.Fuzz(func(t *testing.T, name, verbs string) {
		r := Role{Name: name}
		for v := range strings.SplitSeq(verbs, ",") {
			r.Verbs = append(r.Verbs, Verb(v))
		}
		if err := r.Check(); err != nil {
			if len(err.Error()) > 3000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		book := newRolebook([]Role{r})
		if !book["admin"][KeysCreate] || len(book[name]) != len(r.Verbs) || len(book["reader"]) != len(readerVerbs) {
			t.Errorf("with %q %q the roles are %v", name, verbs, book)
		}
	})
}
