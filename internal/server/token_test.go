package server

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

func TestTokensComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 20, 40)
		key := rouse.Key{Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"), Fire: text.Draw(t, "fire")}
		q := rouse.Query{Namespace: text.Draw(t, "of"), Prefix: text.Draw(t, "prefix"), Labels: rapid.MapOf(text, text).Draw(t, "labels"),
			DueFrom: rouse.Instant(rapid.Int64().Draw(t, "from"))}
		q.Order = rouse.Order(rapid.IntRange(0, 3).Draw(t, "order"))
		place := timers.Place{Key: key}
		if q.Order != rouse.OrderName {
			place.At = rouse.Instant(rapid.Int64().Draw(t, "at"))
		}
		token := placeToken(&place, &q)
		got := q
		if err := placeOf(token, &got); err != nil || got.After != key || got.AfterAt != place.At {
			t.Fatalf("%v at %v, %v, want %v", got.After, got.AfterAt, err, place)
		}
		h := rouse.RecordQuery{Namespace: q.Namespace, Name: q.Prefix, Oldest: rapid.Bool().Draw(t, "oldest")}
		cursor := rouse.RecordCursor{Ended: rouse.Instant(rapid.Int64().Draw(t, "ended")), Seq: rapid.Uint64().Draw(t, "seq")}
		read := h
		if err := cursorOf(cursorToken(&cursor, &h), &read); err != nil || read.From != cursor && h.Oldest || read.Until != cursor && !h.Oldest {
			t.Fatalf("%+v %v, want %v", read, err, cursor)
		}
		if cursorOf(token, &h) == nil {
			t.Fatal("a list's token was taken for a history's")
		}
		q.Prefix += "x"
		if placeOf(token, &q) == nil {
			t.Fatal("the token of another query was taken")
		}
	})
}

func FuzzTokens(f *testing.F) {
	q, h := rouse.Query{Namespace: "ns"}, rouse.RecordQuery{Namespace: "ns"}
	f.Add(placeToken(&timers.Place{Key: rouse.Key{Namespace: "ns", Name: "a"}}, &q))
	f.Add(cursorToken(&rouse.RecordCursor{Ended: 1, Seq: 2}, &h))
	f.Add("AAAAAAAAAAA_____")
	f.Fuzz(func(t *testing.T, token string) {
		if got := q; placeOf(token, &got) == nil {
			again := q
			if err := placeOf(placeToken(&timers.Place{Key: got.After}, &q), &again); err != nil || again.After != got.After {
				t.Errorf("%q is taken for %v, whose token for %v, %v", token, got.After, again.After, err)
			}
		}
		if got := h; cursorOf(token, &got) == nil {
			again := h
			if err := cursorOf(cursorToken(&got.Until, &h), &again); err != nil || again.Until != got.Until {
				t.Errorf("%q is taken for %v, whose token for %v, %v", token, got.Until, again.Until, err)
			}
		}
	})
}
