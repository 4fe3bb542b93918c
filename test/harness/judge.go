package harness

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
)

// Account writes down the service's records of every occurrence, and the writes that waited: learned gives
// one its due time, which is 0 if it was not learned. Next to the judgement of the checker, no occurrence has
// two records, whatever happened: to settle it is one write. skip is true of records to which that does not
// apply.
func (r *Recorder) Account(c *client.Client, learned func(e *history.Put, due history.Time),
	skip func(*rouse.Record) bool) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var all []rouse.Record
	for record, err := range c.Records(ctx, "", "") {
		if err != nil {
			r.T.Fatalf("records: %v", err)
		}
		all = append(all, record)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		a := &all[i]
		gen, ok := r.known[generation{a.Name, a.Generation}]
		switch {
		case ok:
			r.noteDue(gen, a.Due)
			r.Write(history.Record{Timer: a.Name, Gen: gen, Due: Moment(a.Due), LastDue: Moment(a.LastDue), Count: int(a.Count),
				Ending: history.Ending(a.Ending.String()), Reason: a.Reason, Attempts: int(a.Attempts), Manual: a.Manual,
				Cause: a.Cause.String(), Other: Moment(a.Other)})
		case !r.vague[a.Name]:
			r.T.Errorf("a record of %s is of generation %d, which no client wrote: %+v", a.Name, a.Generation, *a)
		}
	}
	for i := range r.unsure {
		e := &r.unsure[i]
		learned(e, Moment(r.due[e.Gen]))
		r.Write(*e)
	}
	r.recordedOnce(all, skip)
	r.T.Logf("%d records", len(all))
}

// recordedOnce fails the test if an occurrence has two records.
func (r *Recorder) recordedOnce(all []rouse.Record, skip func(*rouse.Record) bool) {
	slices.SortFunc(all, func(a, b rouse.Record) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Due, b.Due))
	})
	told := 0
	var last *rouse.Record // the one that reaches farthest
	for i := range all {
		a := &all[i]
		if skip(a) {
			continue
		}
		same := last != nil && last.Name == a.Name && last.Generation == a.Generation
		if same && a.Due <= max(last.Due, last.LastDue) && told < 10 {
			told++
			r.T.Errorf("%s, due %v, has two records:\n%+v\n%+v", a.Name, a.Due, *last, *a)
		}
		if !same || max(a.Due, a.LastDue) >= max(last.Due, last.LastDue) {
			last = a
		}
	}
}

// Judge ends the history, which the service has done before, and lets the checker judge it. excused is true
// of violations that are none here; nil: none is. At least floor occurrences must have been due to arrive:
// fewer prove nothing. It returns the history, the report, and how many occurrences were lost.
func (r *Recorder) Judge(floor int,
	excused func(*history.Violation) bool) (h *history.History, report history.Report, lost int) {
	r.T.Helper()
	r.Write(history.End{T: Now().Add(Watched)})
	if err := r.w.Flush(); err != nil {
		r.T.Fatal(err)
	}
	f, err := os.Open(r.path)
	if err != nil {
		r.T.Fatal(err)
	}
	defer f.Close()
	if h, err = history.Read(f); err != nil {
		r.T.Fatalf("the history is unusable: %v", err)
	}
	report = history.Check(h)
	r.T.Logf("%v; faults=%d", report.Stats, len(h.Faults))
	told, others := map[[2]string]bool{}, 0 // one of each rule for each timer is enough to read
	for i := range report.Violations {
		v := &report.Violations[i]
		if excused != nil && excused(v) {
			continue
		}
		if v.Rule == "C1-lost" {
			lost++
		}
		if key := [2]string{v.Rule, v.Timer}; !told[key] && len(told) < 20 {
			told[key] = true
			r.T.Error(*v)
		} else {
			others++
		}
	}
	if others > 0 {
		r.T.Errorf("%d violations more", others)
	}
	if report.Stats.Early > 0 && r.Config.EarlyTol == 0 {
		r.T.Errorf("%d occurrences arrived early", report.Stats.Early)
	}
	if report.Stats.Musts < floor {
		r.T.Errorf("%d occurrences had to arrive; that proves nothing, it takes %d", report.Stats.Musts, floor)
	}
	if r.T.Failed() {
		r.T.Logf("with -artifacts the history is kept")
	}
	return h, report, lost
}
