package timers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/store/mem"
)

// keyedSpec is a spec with a limit whose key is taken from the timer.
func keyedSpec(key, payload string, labels map[string]string) rouse.Spec {
	return rouse.Spec{Schedule: "@every 1h", Target: "x:y", Limit: "l", LimitKey: key, Payload: []byte(payload), Labels: labels}
}

// TestLimitKeysAreTakenFromTimers: a reference is replaced by the name, a label or a place in the payload,
// and refused if it finds nothing that can be a key.
func TestLimitKeysAreTakenFromTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, mem.New(), &fired{of: map[string]int{}}, Options{})
		const payload = `{"customer": {"id": 17.0, "name": "acme, Inc.", "a/b": "slash", "": "none"}, "list": [true, "two", null], "no": {}}`
		labels := map[string]string{"customer": "acme", "region": "eu", "empty": "", "long": strings.Repeat("v", 120)}
		for _, c := range []struct{ key, payload, want, refused string }{
			{key: "{{name}}", want: "a"},
			{key: "{{label:customer}}", want: "acme"},
			{key: "{{label:region}}/{{label:customer}}", want: "eu/acme"},
			{key: "plain}}{", want: ""},
			{key: "{{payload:/customer/id}}", want: "17.0"},
			{key: "{{payload:/customer/name}}", want: "acme, Inc."},
			{key: "{{payload:/customer/a~1b}}", want: "slash"},
			{key: "{{payload:/customer/}}", want: "none"},
			{key: "{{payload:/list/0}}", want: "true"},
			{key: "{{payload:/list/1}}", want: "two"},
			{key: "{{label:none}}", refused: `names the label "none", which the timer does not have`},
			{key: "{{label:empty}}", refused: "stands for an empty key"},
			{key: "{{label:long}}{{label:customer}}{{label:customer}}{{name}}", refused: "stands for a key that has 129 bytes"},
			{key: "{{payload:/list/2}}", refused: "finds no key at /list/2 of the payload: there is no text"},
			{key: "{{payload:/list/3}}", refused: "there is no text"},
			{key: "{{payload:/list/01}}", refused: "there is no text"},
			{key: "{{payload:/no}}", refused: "there is no text"},
			{key: "{{payload:/customer/id/more}}", refused: "there is no text"},
			{key: "{{payload:/gone/id}}", refused: "there is no text"},
			{key: "{{payload:/a}}", payload: `{"a": "b"`, refused: "it is no JSON"},
			{key: "{{payload:/a}}", payload: `{"a": "b"} {}`, refused: "it is no JSON"},
			{key: "{{payload:/a}}", payload: `{"a": "b\u0001"}`, refused: "stands for a key that contains the control character"},
			{key: "{{customer}}", refused: `has the reference "customer", which names nothing of a timer`},
			{key: "{{name:x}}", refused: "names nothing of a timer"},
			{key: "{{payload:customer}}", refused: "names nothing of a timer"},
			{key: "{{label:}}", refused: "names nothing of a timer"},
			{key: "{{label:customer", refused: "has a reference without its end"},
		} {
			spec := keyedSpec(c.key, payload, labels)
			if c.payload != "" {
				spec.Payload = []byte(c.payload)
			}
			key := rouse.Key{Namespace: "n", Name: "a"}
			res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}})
			if err != nil {
				t.Fatal(err)
			}
			if c.refused != "" {
				invalid, ok := errors.AsType[*rouse.Invalid](res[0].Err)
				if !ok || invalid.Problems[0].Field != "limit_key" || invalid.Problems[0].Value != c.key || invalid.Problems[0].Cure == "" ||
					!strings.Contains(invalid.Error(), c.refused) {
					t.Errorf("%s: %v, want %q", c.key, res[0].Err, c.refused)
				}
				continue
			}
			got, err := ts.Get(t.Context(), key)
			if err != nil || res[0].Err != nil {
				t.Fatal(c.key, err, res[0].Err)
			}
			if got.LimitKey != c.want || got.Spec.LimitKey != c.key {
				t.Errorf("%s stands for %q, want %q", c.key, got.LimitKey, c.want)
			}
		}
	})
}

// TestLimitKeysFollowTheirTimers: a write that changes what a key is taken from changes the key, and with it
// the bucket; one that does not changes nothing.
func TestLimitKeysFollowTheirTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buckets = 64
		reject := &fired{of: map[string]int{}, answer: func(*rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Rejected} }}
		ts := runningBy(t, mem.New(), claim.NewSole(buckets), reject, Options{Engine: engine.Options{Buckets: buckets}})
		key := rouse.Key{Namespace: "n", Name: "a"}
		put := func(spec rouse.Spec) PutResult {
			t.Helper()
			res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}})
			if err != nil {
				t.Fatal(err)
			}
			return res[0]
		}
		expect := func(of rouse.Key, want string) (got rouse.Timer) {
			t.Helper()
			rows, err := ts.store.Get(t.Context(), []rouse.Key{of})
			if err == nil {
				got, err = rouse.DecodeTimer(&rows[0])
			}
			if err != nil {
				t.Fatal(err)
			}
			plain := rouse.Timer{Key: key, Spec: rouse.Spec{Limit: "l", LimitKey: want}}
			if got.LimitKey != want || got.CountedKey() != want || got.Bucket != rouse.Placed(&plain, nil, buckets) {
				t.Errorf("it counts for %q in bucket %d, want %q", got.LimitKey, got.Bucket, want)
			}
			return got
		}
		label := func(customer, other string) rouse.Spec {
			return keyedSpec("{{label:customer}}", "1", map[string]string{"customer": customer, "other": other})
		}
		put(label("acme", ""))
		first := expect(key, "acme")
		if res := put(label("acme", "")); !res.Unchanged || res.Err != nil {
			t.Errorf("the same spec changes something: %+v", res)
		}
		put(label("acme", "x"))
		if got := expect(key, "acme"); got.Generation != first.Generation {
			t.Error("another label begins a generation")
		}
		put(label("zeta", "x"))
		moved := expect(key, "zeta")
		if res := put(keyedSpec("{{label:customer}}", "1", nil)); res.Err == nil || expect(key, "zeta").Revision != moved.Revision {
			t.Errorf("a timer without the label: %v", res.Err)
		}
		if _, err := ts.Relabel(t.Context(), key, 0, "x:y", map[string]string{"customer": "beta"}); err != nil {
			t.Error(err)
		}
		expect(key, "beta")
		put(keyedSpec("{{payload:/c}}", `{"c": "one"}`, nil))
		expect(key, "one")
		put(keyedSpec("{{payload:/c}}", `{"c": "two"}`, nil))
		exported := expect(key, "two")
		exported.LimitKey = "another"
		if res, err := ts.Import(t.Context(), []rouse.Timer{exported}, CreateOrReplace); err != nil || res[0].Err != nil || !res[0].Unchanged {
			t.Errorf("an import of what is there: %+v, %v", res, err)
		}
		expect(key, "two")
		put(keyedSpec("two", "1", nil))
		if rows, err := ts.store.Get(t.Context(), []rouse.Key{key}); err != nil {
			t.Error(err)
		} else if got, err := rouse.DecodeTimer(&rows[0]); err != nil || got.LimitKey != "" || got.CountedKey() != "two" {
			t.Errorf("a plain key: %+v, %v", got, err)
		}

		if _, err := ts.Coalesce(t.Context(), rouse.Key{Namespace: "n", Name: "b"}, rouse.Spec{Target: "x:y", Limit: "l", LimitKey: "{{name}}"},
			rouse.Coalesce{Quiet: time.Hour}); err != nil {
			t.Error(err)
		}
		expect(rouse.Key{Namespace: "n", Name: "b"}, "b")

		put(label("acme", ""))
		id, _, err := ts.RunNow(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		dead := rouse.Key{Namespace: "n", Name: "a", Fire: id}
		expect(dead, "acme")
		put(label("zeta", ""))
		if _, err := ts.Redrive(t.Context(), dead, true); err != nil {
			t.Fatal(err)
		}
		expect(dead, "zeta")
	})
}

// TestLimitKeysOfRowsNextToTimers: an occurrence on its way next to its timer gets the key that the timer
// has.
func TestLimitKeysOfRowsNextToTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := &fired{of: map[string]int{}, answer: func(*rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed} }}
		ts := running(t, mem.New(), fail, Options{})
		key := rouse.Key{Namespace: "n", Name: "a"}
		put := func(customer string) {
			spec := keyedSpec("{{label:customer}}", "1", map[string]string{"customer": customer})
			spec.Overlap, spec.Retry = rouse.OverlapAllow, rouse.Retry{Attempts: 5, Interval: time.Hour}
			if res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}}); err != nil || res[0].Err != nil {
				t.Fatal(err, res[0].Err)
			}
		}
		put("acme")
		id, _, err := ts.RunNow(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		put("zeta")
		key.Fire = id
		if got, err := ts.Get(t.Context(), key); err != nil || got.CountedKey() != "zeta" {
			t.Errorf("the run counts for %q, %v", got.CountedKey(), err)
		}
	})
}
