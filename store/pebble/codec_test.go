package pebble

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// noZero draws texts that are allowed in a key.
func noZero(max int) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, max), func(b []byte) string { return string(b) })
}

func drawKey(t *rapid.T, label string) rouse.Key {
	text := noZero(4)
	return rouse.Key{Namespace: text.Draw(t, label+" namespace"), Name: text.Draw(t, label+" name"), Fire: text.Draw(t, label+" fire")}
}

func TestKeysSortAsTheirPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) rouse.Position {
			return rouse.Position{Visible: rouse.Instant(rapid.Int64().Draw(t, label)), Key: drawKey(t, label)}
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "same time") {
			b.Visible = a.Visible
		}
		if got, want := bytes.Compare(appendDueKey(nil, 7, a.Visible, a.Key), appendDueKey(nil, 7, b.Visible, b.Key)), a.Compare(b); got != want {
			t.Fatalf("%v and %v: %d, want %d", a, b, got, want)
		}
		if got, want := bytes.Compare(appendKeyKey(nil, a.Key), appendKeyKey(nil, b.Key)), a.Key.Compare(b.Key); got != want {
			t.Fatalf("%v and %v: %d, want %d", a.Key, b.Key, got, want)
		}
	})
}

func TestARowComesBackFromItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rouse.Row{Key: drawKey(t, "key"), Bucket: rapid.Uint32().Draw(t, "bucket"), Visible: rouse.Instant(rapid.Int64().Draw(t, "visible")),
			Revision: rapid.Uint64().Draw(t, "revision"), Generation: rapid.Uint64().Draw(t, "generation"), State: rouse.State(rapid.Byte().Draw(t, "state")),
			Due: rouse.Instant(rapid.Int64().Draw(t, "due")), Labels: rapid.MapOfN(noZero(5), noZero(5), 0, 3).Draw(t, "labels"),
			Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body")}
		head := appendHead(nil, want.State, want.Revision, want.Generation, want.Due, want.Labels)
		near := ""
		got, err := decodeDueRow(appendDueKey(nil, want.Bucket, want.Visible, want.Key), append(slices.Clone(head), want.Body...), &near)
		if err != nil || got.Key != want.Key || got.Bucket != want.Bucket || got.Visible != want.Visible || got.Revision != want.Revision ||
			got.Generation != want.Generation || got.State != want.State || got.Due != want.Due || !maps.Equal(got.Labels, want.Labels) || !bytes.Equal(got.Body, want.Body) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
		}
		p, err := readPlace(appendPlace(head, want.Bucket, want.Visible))
		if err != nil || !p.exists || p.bucket != want.Bucket || p.visible != want.Visible || p.revision != want.Revision || p.generation != want.Generation ||
			p.state != want.State || p.due != want.Due || !maps.Equal(p.labels, want.Labels) {
			t.Fatalf("got %+v, %v\nwant %+v", p, err, want)
		}
	})
}

// FuzzRead reads damaged keys and values: they are refused or read, never cause a panic, and take no more
// memory than their size.
func FuzzRead(f *testing.F) {
	k := rouse.Key{Namespace: "ns", Name: "a", Fire: "f"}
	head := appendHead(nil, rouse.StateDead, 5, 6, 7, map[string]string{"a": "b"})
	f.Add(appendDueKey(nil, 1, 2, k), append(slices.Clone(head), "body"...))
	f.Add(appendKeyKey(nil, k), appendPlace(head, 1, 2))
	f.Add([]byte{tagDue}, []byte{version, 1, 0x80})
	var l logging
	var o ops
	l.init()
	l.logRecord(&o, &rouse.Record{Namespace: "ns", Name: "a", Ended: 5}, 9)
	l.writeLogPages(&o, map[uint32]int64{})
	for _, p := range slices.Concat(o.lists[:]...) {
		f.Add(o.keyOfOp(&p), o.buf[p.value:p.end])
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		near := "ns"
		row, err := decodeDueRow(key, value, &near)
		if err == nil {
			again, err := decodeDueRow(appendDueKey(nil, row.Bucket, row.Visible, row.Key),
				append(appendHead(nil, row.State, row.Revision, row.Generation, row.Due, row.Labels), row.Body...), &near)
			if err != nil || again.Key != row.Key || again.Revision != row.Revision || !bytes.Equal(again.Body, row.Body) {
				t.Fatalf("%+v\n%+v\n%v", row, again, err)
			}
		}
		_, _ = readPlace(value)
		_, _ = readMoments(5, value)
		_, _ = readKey(key)
	})
}
