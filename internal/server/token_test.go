package server

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

func TestTokensComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 20, 40)
		key := rouse.Key{Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"), Fire: text.Draw(t, "fire")}
		q := rouse.Query{Namespace: text.Draw(t, "of"), Prefix: text.Draw(t, "prefix"), Labels: rapid.MapOf(text, text).Draw(t, "labels"),
			DueFrom: rouse.Instant(rapid.Int64().Draw(t, "from"))}
		token := keyToken(key, &q)
		if got, err := keyOf(token, &q); err != nil || got != key {
			t.Fatalf("%v %v, want %v", got, err, key)
		}
		h := rouse.RecordQuery{Namespace: q.Namespace, Name: q.Prefix}
		cursor := rouse.RecordCursor{Ended: rouse.Instant(rapid.Int64().Draw(t, "ended")), Seq: rapid.Uint64().Draw(t, "seq")}
		if got, err := cursorOf(cursorToken(cursor, &h), &h); err != nil || got != cursor {
			t.Fatalf("%v %v, want %v", got, err, cursor)
		}
		if _, err := cursorOf(token, &h); err == nil {
			t.Fatal("a list's token was taken for a history's")
		}
		q.Prefix += "x"
		if _, err := keyOf(token, &q); err == nil {
			t.Fatal("the token of another query was taken")
		}
	})
}

func FuzzTokens(f *testing.F) {
	q, h := rouse.Query{Namespace: "ns"}, rouse.RecordQuery{Namespace: "ns"}
	f.Add(keyToken(rouse.Key{Namespace: "ns", Name: "a"}, &q))
	f.Add(cursorToken(rouse.RecordCursor{Ended: 1, Seq: 2}, &h))
	f.Add("AAAAAAAAAAA_____")
	f.Fuzz(func(t *testing.T, token string) {
		if k, err := keyOf(token, &q); err == nil {
			if again, err := keyOf(keyToken(k, &q), &q); err != nil || again != k {
				t.Errorf("%q is taken for %v, whose token for %v, %v", token, k, again, err)
			}
		}
		if c, err := cursorOf(token, &h); err == nil {
			if again, err := cursorOf(cursorToken(c, &h), &h); err != nil || again != c {
				t.Errorf("%q is taken for %v, whose token for %v, %v", token, c, again, err)
			}
		}
	})
}
