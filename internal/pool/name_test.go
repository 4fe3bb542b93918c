package pool

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostile are keys that break careless names, paths, shells, patterns and queries.
var hostile = []string{"", "42", "infra=42,timetable=24", "../../etc/passwd", "%41", "A", "a\nb", "a\x00b", "naïve", "日本", "*", "#", "a.*.#",
	"$(reboot)", "'; drop table workers; --", strings.Repeat("k", 255), strings.Repeat("é", 127), strings.Repeat("k", 254) + "l", "-rf", "~", "a b"}

// TestNamesTellKeysApart checks that names contain only harmless characters, keep their maximum length, are
// unique, and can be decoded unless they contain a hash.
func TestNamesTellKeysApart(t *testing.T) {
	seen := map[string]string{}
	check := func(t interface{ Fatalf(string, ...any) }, key string, most int) string {
		name := Encode(key, most)
		if len(name) > most {
			t.Fatalf("the name of %q has %d bytes, more than %d", key, len(name), most)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%~") != "" {
			t.Fatalf("the name of %q is %q", key, name)
		}
		got, ok := Decode(name)
		if hashed := strings.ContainsRune(name, hashMark); ok == hashed || ok && got != key {
			t.Fatalf("the name of %q is %q, which decodes to %q, %v", key, name, got, ok)
		}
		return name
	}
	for _, key := range hostile {
		name := check(t, key, 100)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %q", key, other, name)
		}
		seen[name] = key
	}
	rapid.Check(t, func(r *rapid.T) {
		a, b := rapid.StringN(0, -1, 255).Draw(r, "a"), rapid.StringN(0, -1, 255).Draw(r, "b")
		most := rapid.IntRange(80, 240).Draw(r, "most")
		if x, y := check(r, a, most), check(r, b, most); (x == y) != (a == b) {
			r.Fatalf("%q is %q, %q is %q", a, x, b, y)
		}
	})
}

// TestOnlyNamesAreDecoded checks that no two names stand for one key.
func TestOnlyNamesAreDecoded(t *testing.T) {
	for _, name := range []string{"%41", "%2f", "%2", "%", "a b", "a~b", "%G0"} {
		if key, ok := Decode(name); ok {
			t.Errorf("%q stands for %q, which Encode writes otherwise", name, key)
		}
	}
}

// TestPoolNames checks which names a pool may have.
func TestPoolNames(t *testing.T) {
	for name, ok := range map[string]bool{"core": true, "a-b_c.d": true, "": false, "amq.x": false, "a b": false, "a-req": false,
		"a-req-b": false, "a-requests": true, strings.Repeat("p", 65): false, "pöl": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
