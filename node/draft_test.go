package node

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/poll"
)

// TestDraftsKeepQuotas: a timer that SQL has written is taken up only as far as its namespace has room for
// it, and is paused, with a record, beyond that.
func TestDraftsKeepQuotas(t *testing.T) {
	cfg := config(t, "mem:")
	cfg.Access = accessKeys
	n := starts(t, cfg)
	for name, q := range map[string]rouse.Quotas{"full": {Timers: 1}, "room": {Timers: 2}, "small": {Bytes: 100}} {
		if _, err := n.quotas.Put(access.AsSystem(t.Context()), name, q, 0); err != nil {
			t.Fatal(err)
		}
	}
	before := rouse.Reached(time.Now().Add(-time.Hour))
	var drafts []rouse.Change
	for _, key := range []rouse.Key{{Namespace: "full", Name: "a"}, {Namespace: "full", Name: "b"}, {Namespace: "room", Name: "a"}, {Namespace: "room", Name: "b"},
		{Namespace: "small", Name: "a"}, {Namespace: "none", Name: "a"}} {
		row := rouse.DraftRow(key, 0, []byte(`{"schedule": "@after 24h", "target": "stream:x", "payload": "`+strings.Repeat("x", 100)+`"}`), before)
		drafts = append(drafts, rouse.Change{Key: key, If: rouse.NoRow, To: &row})
	}
	if _, err := n.store.Apply(t.Context(), drafts); err != nil {
		t.Fatal(err)
	}
	run(t, n)
	for name, want := range map[string]string{"full/a": "quota", "full/b": "quota", "room/a": "", "room/b": "", "small/a": "quota", "none/a": "has not been created"} {
		namespace, name, _ := strings.Cut(name, "/")
		key := rouse.Key{Namespace: namespace, Name: name}
		var timer rouse.Timer
		poll.Until(t, "the draft is taken up", func() bool {
			rows, err := n.store.Get(t.Context(), []rouse.Key{key})
			if err != nil || rows[0].Revision == 0 {
				t.Fatal(rows, err)
			}
			_, draft := rouse.DraftSpec(&rows[0])
			if !draft {
				timer, err = rouse.DecodeTimer(&rows[0])
			}
			return err == nil && !draft
		})
		page, err := n.store.Records(t.Context(), rouse.RecordQuery{Namespace: namespace, Name: name, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		if timer.Paused != (want != "") || !strings.Contains(timer.Reason, want) {
			t.Errorf("%v: paused %v, %q, want %q", key, timer.Paused, timer.Reason, want)
		}
		if want != "" && (len(page.Records) != 1 || page.Records[0].Cause != rouse.CauseInvalid || page.Records[0].Reason != timer.Reason) || want == "" && len(page.Records) != 0 {
			t.Errorf("%v has the records %+v", key, page.Records)
		}
	}
}
