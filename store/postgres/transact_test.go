package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/test/servers"
)

// callers opens a connection to a schema as the role of an application that creates timers in its own
// transactions.
func callers(t *testing.T) *pgx.Conn {
	t.Helper()
	url := servers.Postgres(t)
	if err := Migrate(t.Context(), url, unsafe, Latest()); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestBucketsInSQL: SQL and nodes compute the same bucket.
func TestBucketsInSQL(t *testing.T) {
	conn := callers(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	names := []string{"a", "ab", "ä", "日本語", "\U0001F600", "e\u0301", strings.Repeat("x", 256), "\u00ad"}
	for range 2000 {
		var b strings.Builder
		for range 1 + rnd.IntN(20) {
			b.WriteRune([]rune{'a' + rune(rnd.IntN(26)), 0xA1 + rune(rnd.IntN(0x500)), 0x4E00 + rune(rnd.IntN(0x5000)), 0x1F300 + rune(rnd.IntN(0x200))}[rnd.IntN(4)])
		}
		names = append(names, b.String())
	}
	for _, buckets := range []uint32{1, 2, 3, 64, 1000, 4096, 1<<32 - 1} {
		var got []int64
		if err := conn.QueryRow(t.Context(), `SELECT array_agg(rouse.bucket_of('shop.eu-1', n, $2) ORDER BY i) FROM unnest($1::text[]) WITH ORDINALITY u(n, i)`,
			names, int64(buckets)).Scan(&got); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if want := rouse.BucketOf(rouse.Key{Namespace: "shop.eu-1", Name: name}, buckets); got[i] != int64(want) {
				t.Fatalf("%q is in bucket %d of %d, SQL returns %d", name, want, buckets, got[i])
			}
		}
	}
}

// TestKeysInSQL: SQL accepts the same namespaces and names as rouse.
func TestKeysInSQL(t *testing.T) {
	conn := callers(t)
	if err := exec(t, conn, `CREATE FUNCTION takes(namespace text, name text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN PERFORM rouse.check_key(namespace, name); RETURN true; EXCEPTION WHEN invalid_parameter_value THEN RETURN false; END $$`); err != nil {
		t.Fatal(err)
	}
	names := []string{"", " ", "a ", " a", "a b", strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("ä", 128), strings.Repeat("ä", 129), "a\n", "\ta"}
	for r := rune(1); r < 0x3100; r++ {
		names = append(names, string(r), "a"+string(r)+"a")
	}
	odd := func(r rune) bool {
		return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
	}
	for r := rune(0x3100); r <= unicode.MaxRune; r++ {
		if odd(r) != odd(r-1) || r == 0xFFFC || r == 0xFFFD || r == 0x1F600 || r == unicode.MaxRune {
			names = append(names, "a"+string(r-1)+"a", string(r), "a"+string(r)+"a")
		}
	}
	names = append(names, ".", "..", "...", "a/.", "./a", "a/../b", "a/..b", ".a/b", "a.", "e\u0301", "\u00e9", "\u212b", "a\u0323\u0307")
	namespaces := []string{"", "a", "A", "ä", "0", "-a", ".a", "_a", "a-_.0", "a b", "a\n", "\na", strings.Repeat("x", 64), strings.Repeat("x", 65), "a/b"}
	var got []bool
	if err := conn.QueryRow(t.Context(), `SELECT array_agg(takes('shop', n) ORDER BY i) FROM unnest($1::text[]) WITH ORDINALITY u(n, i)`, names).Scan(&got); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := rouse.CheckName(name); (err == nil) != got[i] {
			t.Errorf("name %q: %v, and SQL returns %v", name, err, got[i])
		}
	}
	if err := conn.QueryRow(t.Context(), `SELECT array_agg(takes(n, 'a') ORDER BY i) FROM unnest($1::text[]) WITH ORDINALITY u(n, i)`, namespaces).Scan(&got); err != nil {
		t.Fatal(err)
	}
	for i, ns := range namespaces {
		if err := rouse.CheckNamespace(ns); (err == nil) != got[i] {
			t.Errorf("namespace %q: %v, and SQL returns %v", ns, err, got[i])
		}
	}
}

func exec(t *testing.T, conn *pgx.Conn, text string) error {
	t.Helper()
	_, err := conn.PgConn().Exec(t.Context(), text).ReadAll()
	return err
}

// TestSpecsInSQL: SQL knows the members of the API and their types.
func TestSpecsInSQL(t *testing.T) {
	conn := callers(t)
	kinds := api.SpecMembers()
	written, err := json.Marshal(kinds)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO rouse.leases (name, epoch, data) VALUES ('setting/members', 1, $1)`, written); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"string": `"x"`, "number": `3`, "array": `[]`, "object": `{}`, "boolean": `true`}
	check := func(spec string) string {
		_, err := conn.Exec(t.Context(), `SELECT rouse.check_spec($1::text::jsonb)`, spec)
		if err != nil && (sqlState(err) != "22023" || !strings.Contains(err.Error(), "spec")) {
			t.Errorf("%s: %v", spec, err)
		}
		return sqlState(err)
	}
	for name, kind := range kinds {
		for of, value := range values {
			spec := map[string]json.RawMessage{"schedule": json.RawMessage(`"@hourly"`), "target": json.RawMessage(`"stream:a"`)}
			spec[name] = json.RawMessage(value)
			b, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := check(string(b)) == "", kind == "any" || kind == of; got != want {
				t.Errorf("%s: taken %v", b, got)
			}
		}
	}
	for _, spec := range []string{`null`, `[]`, `"a"`, `{}`, `{"schedule": "a"}`, `{"target": "a"}`, `{"schedule": "", "target": "a"}`, `{"schedule": 1, "target": "a"}`,
		`{"schedule": "a", "target": null}`, `{"schedule": "a", "target": "a", "shedule": "b"}`, `{"schedule": "a", "target": "a", "criticality": 10}`,
		`{"schedule": "a", "target": "a", "criticality": 1.5}`, `{"schedule": "a", "target": "a", "criticality": -1}`, `{"schedule": "a", "target": "a", "": 1}`,
		`{"schedule": "a", "target": "a", "payload": "` + strings.Repeat("x", 1<<20) + `"}`} {
		if check(spec) == "" {
			t.Errorf("%.100s: it is taken", spec)
		}
	}
	const novel = `{"schedule": "a", "target": "a", "novel": {"a": 1}}` // as in a later version of rouse
	if check(novel) == "" {
		t.Error("a member that no node knows is taken")
	}
	if _, err := conn.Exec(t.Context(), `UPDATE rouse.leases SET data = convert_to((convert_from(data, 'UTF8')::jsonb || '{"novel": "object"}')::text, 'UTF8')
		WHERE name = 'setting/members'`); err != nil || check(novel) != "" {
		t.Errorf("%v, or a member that a node knows is refused", err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT rouse.create_timer('shop', 'a', NULL)`); sqlState(err) != "22023" {
		t.Errorf("no spec: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT rouse.create_timer('shop', NULL, '{"schedule": "a", "target": "b"}')`); sqlState(err) != "22023" {
		t.Errorf("no name: %v", err)
	}
	for _, mode := range []string{`'upsert'`, `NULL`} {
		if _, err := conn.Exec(t.Context(), `SELECT rouse.create_timer('shop', 'a', '{"schedule": "a", "target": "b"}', `+mode+`)`); sqlState(err) != "22023" {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}

// someTimer returns a timer with random content in all fields around those that SQL reads from its body.
func someTimer(rnd *rand.Rand) rouse.Timer {
	text := func(n int) string { return strings.Repeat("ä", rnd.IntN(n)) + strings.Repeat("x", rnd.IntN(n)) }
	t := rouse.Timer{
		Key: rouse.Key{Namespace: "shop", Name: "a"}, Generation: 1 + rnd.Uint64N(1<<60), Reason: text(50), Paused: rnd.IntN(2) == 0, LastError: []string{text(200), ""}[rnd.IntN(2)],
		Created: 1_800_000_000_000, Updated: rouse.Instant(rnd.Int64()), Anchor: rouse.Never, Due: 1_800_000_000_000 + rouse.Instant(rnd.IntN(1000)),
		Token: rnd.Uint64N(1 << 62), Ended: rnd.Uint64N(1000), Skips: rnd.Uint32N(10),
		Spec: rouse.Spec{Schedule: text(100), Timezone: text(3), Target: text(300), ContentType: text(10), Payload: []byte(text(40_000)),
			Labels: map[string]string{"a": "b"}, Jitter: 5, Criticality: uint8(rnd.IntN(10)), Misfire: rouse.Misfire(rnd.IntN(3)),
			Retry:   rouse.Retry{Attempts: rnd.Uint32N(1000), Interval: -1, Max: 1 << 62, Jitter: -1, Timeout: 1},
			Webhook: rouse.Webhook{Method: text(3), Structured: rnd.IntN(2) == 0, Batch: rnd.Uint32N(1000), Headers: map[string]string{}}},
	}
	t.Spec.Schedule += []string{"@hourly", "@hourly", "2027-01-15T08:00:00Z", "@after 5m", "2027 -"}[rnd.IntN(5)]
	if rnd.IntN(2) == 0 {
		t.Spec.Schedule = strings.TrimLeft(t.Spec.Schedule, "äx")
	}
	if rnd.IntN(2) == 0 {
		t.Spec.Also, t.Spec.Except = []string{text(9), "@daily"}[rnd.IntN(2):], []string{text(9)}
		t.Spec.Calendar.Off = []string{"weekends"}
		t.Spec.Retry.GiveUp, t.Spec.Keep = 7, 8
		t.Spec.Retry.Timeout = time.Duration(rnd.Int64N(1e12))
	}
	if t.Paused && rnd.IntN(4) > 0 {
		t.PausedAt = 1_700_000_000_000 + rouse.Instant(rnd.IntN(1000))
		if rnd.IntN(2) == 0 {
			t.Until = t.PausedAt + rouse.Instant(rnd.IntN(1000))
		}
	}
	if rnd.IntN(8) == 0 {
		t.Began = 1_700_000_000_000
	}
	if rnd.IntN(8) == 0 {
		t.Pauses = []rouse.Span{{From: 1, To: 2}}
	}
	for i := range rnd.IntN(4) {
		t.Spec.Webhook.Headers[fmt.Sprint(i, text(5))] = text(100)
	}
	for range rnd.IntN(4) {
		t.Runs = append(t.Runs, rouse.Instant(1_700_000_000_000+rnd.Int64N(1e12)))
	}
	if rnd.IntN(2) == 0 {
		t.Attempts = 1 + rnd.Uint32N(300)
		t.Manual = len(t.Runs) > 0 && rnd.IntN(2) == 0
		t.Failures = []rouse.Attempt{{Sent: 1, Detail: text(20)}}
	}
	return t
}

// TestProgressInSQL: SQL reads from a body what it needs to end what is in progress. It supports versions 1
// and 2 of the body: a third version needs a migration that teaches SQL to read it.
func TestProgressInSQL(t *testing.T) {
	conn := callers(t)
	rnd := rand.New(rand.NewPCG(2, 1))
	for range 500 {
		timer := someTimer(rnd)
		var manual bool
		var runs []int64
		var attempts int64
		var last string
		var timeout, until int64
		var once bool
		var paused *int64
		if err := conn.QueryRow(t.Context(), `SELECT * FROM rouse.progress($1)`, timer.Row().Body).Scan(&manual, &runs, &attempts, &last, &timeout, &once, &paused, &until); err != nil {
			t.Fatal(err)
		}
		var got []rouse.Instant
		for _, r := range runs {
			got = append(got, rouse.Instant(r))
		}
		if manual != timer.Manual || !slices.Equal(got, timer.Runs) || attempts != int64(timer.Attempts) || last != timer.LastError {
			t.Fatalf("SQL reads %v %v %d %q of %+v", manual, runs, attempts, last, timer)
		}
		if timeout != timer.Spec.Retry.Timeout.Milliseconds() || once == timer.Spec.Recurring() || timer.Paused && (until != int64(timer.Until) || knowsPause(&timer) != (paused != nil) ||
			paused != nil && *paused != int64(timer.PausedAt)) {
			t.Fatalf("SQL reads %d %v %v %d of %+v", timeout, once, paused, until, timer)
		}
	}
	for _, body := range []string{"", "J{}", "\x03\x00\x00", "\x02"} {
		var manual *bool
		if err := conn.QueryRow(t.Context(), `SELECT manual FROM rouse.progress($1)`, []byte(body)).Scan(&manual); err != nil || manual != nil {
			t.Errorf("%q: %v %v", body, manual, err)
		}
	}
}

// knowsPause reports whether SQL can read since when a timer is paused.
func knowsPause(t *rouse.Timer) bool {
	return t.Attempts == 0 && t.Began == 0 && len(t.Pauses) == 0
}

// TestWhatIsCutOffIsRecorded: deleting or replacing a timer ends the occurrence that is due or in progress,
// and those in progress next to it; each of them has a record with its cause, at once or, if its first
// attempt may be out, later. Dead letters stay.
func TestWhatIsCutOffIsRecorded(t *testing.T) {
	conn := callers(t)
	s := openTest(t, conn.Config().ConnString(), unsafe)
	defer s.Close()
	rnd := rand.New(rand.NewPCG(3, 1))
	dueOnes, pausedOnes := 0, 0
	for i := range 100 {
		timer := someTimer(rnd)
		timer.Key.Name = fmt.Sprint("t", i)
		if rnd.IntN(2) == 0 {
			timer.Due = 1_700_000_000_000 + rouse.Instant(rnd.IntN(1000)) // it has come due
		}
		if rnd.IntN(2) == 0 {
			timer.Token = 0
		}
		cause := rouse.CauseDeleted
		if i%2 == 0 {
			cause = rouse.CauseReplaced
		}
		var rows []rouse.Row
		var want, wantLater []rouse.Record
		note := func(t *rouse.Timer, due rouse.Instant, manual bool, attempts uint32) {
			r := rouse.Record{Namespace: "shop", Name: t.Key.Name, Generation: t.Generation, Ending: rouse.EndSkipped, Cause: cause, Manual: manual, Due: due, Attempts: attempts}
			first := t.Attempts == 0 && (!manual || due == t.Runs[0]) || attempts != 0 && t.State() != rouse.StateAccepted && t.LastError == ""
			if t.Key.Fire == "" && first {
				wantLater = append(wantLater, r)
			} else {
				want = append(want, r)
			}
		}
		due := timer.Due < 1_750_000_000_000
		switch {
		case timer.Attempts != 0 && timer.Manual:
			note(&timer, timer.Runs[0], true, timer.Attempts)
		case timer.Attempts != 0:
			note(&timer, timer.Due, false, timer.Attempts)
		case timer.Paused && due && knowsPause(&timer) && timer.Spec.Recurring() && timer.Due > timer.PausedAt && (timer.Until == 0 || timer.Due <= timer.Until):
			want = append(want, rouse.Record{Namespace: "shop", Name: timer.Key.Name, Generation: timer.Generation, Ending: rouse.EndSkipped, Cause: rouse.CausePaused, Due: timer.Due})
			pausedOnes++
		case (timer.Paused || timer.State() == rouse.StateScheduled) && due:
			note(&timer, timer.Due, false, 0)
			dueOnes++
		}
		for j, due := range timer.Runs {
			if j > 0 || timer.Attempts == 0 || !timer.Manual {
				note(&timer, due, true, 0)
			}
		}
		rows = append(rows, timer.Row())
		for j := range 3 {
			side := timer
			side.Key.Fire, side.Live, side.Runs, side.Manual, side.Attempts = fmt.Sprintf("fire%d", j), j != 1, nil, false, uint32(j)
			if j == 0 {
				side.Manual, side.Runs = true, []rouse.Instant{side.Due}
			}
			if side.Live {
				note(&side, side.Due, side.Manual, side.Attempts)
			}
			rows = append(rows, side.Row())
		}
		var changes []rouse.Change
		for j := range rows {
			rows[j].Revision = 0
			changes = append(changes, rouse.Change{Key: rows[j].Key, If: rouse.NoRow, To: &rows[j]})
		}
		create(t, s, changes)
		text := `SELECT rouse.delete_timer('shop', $1)::text`
		if i%2 == 0 {
			text = `SELECT rouse.create_timer('shop', $1, '{"schedule": "@hourly", "target": "stream:a"}', 'replace')::text`
		}
		var answer string
		if err := conn.QueryRow(t.Context(), text, timer.Key.Name).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		page, err := s.Records(t.Context(), rouse.RecordQuery{Namespace: "shop", Name: timer.Key.Name, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var got []rouse.Record
		for _, r := range page.Records {
			if r.Ended == 0 || !strings.HasSuffix(r.Reason, "while it was being tried") && !strings.HasSuffix(r.Reason, "before it was sent") && r.Reason != "paused" && !strings.Contains(r.Reason, "while it was being tried: ") || len(r.Reason) > rouse.MaxDetail {
				t.Errorf("%+v", r)
			}
			r.Ended, r.Reason = 0, ""
			got = append(got, r)
		}
		order := func(a, b rouse.Record) int { return bytes.Compare(fmt.Append(nil, a), fmt.Append(nil, b)) }
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("records %+v, want %+v", got, want)
		}
		slices.SortFunc(wantLater, func(a, b rouse.Record) int { return cmp.Compare(fmt.Sprint(a.Manual), fmt.Sprint(b.Manual)) })
		if got := leftLater(t, s, &timer); !reflect.DeepEqual(got, wantLater) {
			t.Fatalf("records later %+v, want %+v", got, wantLater)
		}
		for state, n := range map[rouse.State]int64{rouse.StateFiring: 0, rouse.StateDead: int64(i + 1)} {
			if have, err := s.Count(t.Context(), rouse.Query{Namespace: "shop", States: []rouse.State{state}}); err != nil || have != n {
				t.Fatalf("%d rows are %v, want %d: %v", have, state, n, err)
			}
		}
	}
	if dueOnes == 0 || pausedOnes == 0 {
		t.Errorf("%d timers had come due, %d while they were paused", dueOnes, pausedOnes)
	}
	for range 2 { // a draft that no node has read: its timer is not due yet
		if err := exec(t, conn, `SELECT rouse.create_timer('shop', 'draft', '{"schedule": "@after 1h", "target": "stream:a"}', 'replace')`); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := s.Records(t.Context(), rouse.RecordQuery{Namespace: "shop", Name: "draft", Limit: 10}); err != nil || len(page.Records) != 0 {
		t.Errorf("a draft that was replaced has the records %+v, %v", page.Records, err)
	}
	for _, wrong := range []string{
		`SELECT count(*) FROM (SELECT state, sum(n) FROM (SELECT state, rows AS n FROM rouse.tallies UNION ALL SELECT state, -1 FROM rouse.timers) x GROUP BY 1 HAVING sum(n) <> 0) y`,
		`SELECT count(*) FROM (SELECT hour, sum(n) FROM (SELECT hour, records AS n FROM rouse.hours UNION ALL SELECT div(ended, 3600000), -1 FROM rouse.records) x GROUP BY 1 HAVING sum(n) <> 0) y`,
		`SELECT count(*) FROM rouse.pending`,
	} {
		if n := ask(t, conn.Config().ConnString(), wrong); n != 0 {
			t.Errorf("%s: %d", wrong, n)
		}
	}
}

// leftLater returns what the rows that a timer has left will record when the time of an attempt has passed,
// unless a node has recorded the same occurrence by then.
func leftLater(t *testing.T, s *Store, of *rouse.Timer) (list []rouse.Record) {
	t.Helper()
	page, err := s.List(t.Context(), rouse.Query{Namespace: "shop", Prefix: of.Key.Name, States: []rouse.State{rouse.StateNote}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Rows {
		row := &page.Rows[i]
		if row.Key.Name != of.Key.Name {
			continue
		}
		note, err := rouse.DecodeTimer(row)
		if err != nil {
			t.Fatal(err)
		}
		if again := note.Row(); !bytes.Equal(again.Body, row.Body) || again.State != row.State || row.Bucket != of.Bucket {
			t.Errorf("%+v is kept as %+v", row, again)
		}
		wait := time.Minute + of.Spec.Retry.Effective().Timeout.Truncate(time.Millisecond)
		if left := time.Until(row.Visible.Time()); of.Spec.Retry.Timeout > time.Millisecond && (left > wait+time.Second || left < wait-time.Minute/2) {
			t.Errorf("it is recorded in %v, not %v", left, wait)
		}
		for _, r := range rouse.CutStep(&note, row.Visible, nil).Log {
			if r.Ended == 0 || !strings.HasSuffix(r.Reason, "while it may have been sent") {
				t.Errorf("%+v", r)
			}
			r.Ended, r.Reason = 0, ""
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b rouse.Record) int {
		return cmp.Or(cmp.Compare(fmt.Sprint(a.Manual), fmt.Sprint(b.Manual)), cmp.Compare(a.Due, b.Due))
	})
	return list
}

// TestANodeOfTheVersionBeforeGoesOn: nodes of version 5, the oldest that may use the schema, work with the
// functions for callers as they are now.
func TestANodeOfTheVersionBeforeGoesOn(t *testing.T) {
	conn := callers(t)
	s, err := openWithSteps(t.Context(), conn.Config().ConnString(), unsafe, embedded[:5])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, timers("t", 3))
	if err := exec(t, conn, `SELECT rouse.create_timer('shop', 'a', '{"schedule": "@hourly", "target": "stream:a", "criticality": 4}')`); err != nil {
		t.Fatal(err)
	}
	b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(b.Rows, func(r rouse.Row) bool { return r.Key.Name == "a" })
	if i < 0 {
		t.Fatalf("it is not among the %d rows", len(b.Rows))
	}
	want := rouse.DraftRow(rouse.Key{Namespace: "shop", Name: "a"}, 0, []byte(`{"target": "stream:a", "schedule": "@hourly", "criticality": 4}`), b.Rows[i].Due)
	want.Revision, want.Generation, want.Criticality = b.Rows[i].Revision, b.Rows[i].Generation, 4
	if !reflect.DeepEqual(b.Rows[i], want) {
		t.Errorf("SQL writes %+v, rouse %+v", b.Rows[i], want)
	}
}
