package migrate

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/rousehq/rouse"
)

// recordPages is the number of batches of records that are read at a time: many, as a store may have to read
// all records of a second for each page.
const recordPages = 10

// moment contains the records of a namespace that ended at the same time, newest first.
type moment struct {
	ended   rouse.Instant
	records []rouse.Record
}

// readMoments reads the history of a namespace, newest first.
func (s side) readMoments(ctx context.Context, name, namespace string, batch int) *ahead[moment] {
	q := rouse.RecordQuery{Namespace: namespace, Limit: recordPages * batch}
	var last moment // possibly incomplete
	return readAhead(ctx, func(ctx context.Context) ([]moment, bool, error) {
		page, err := s.listRecordPage(ctx, q)
		if err != nil {
			return nil, false, fmt.Errorf("read records of %s: %w", name, err)
		}
		var whole []moment
		for _, r := range page.Records {
			if len(last.records) > 0 && r.Ended > last.ended {
				return nil, false,
					fmt.Errorf("records of %s, namespace %q: one of %v comes after one of %v: they are not newest first", name,
						namespace, r.Ended, last.ended)
			}
			if len(last.records) > 0 && r.Ended != last.ended {
				whole = append(whole, last)
				last = moment{}
			}
			last.ended, last.records = r.Ended, append(last.records, r)
		}
		if page.Next != nil {
			q.Until = *page.Next
			return whole, true, nil
		}
		if len(last.records) > 0 {
			whole = append(whole, last)
		}
		return whole, false, nil
	})
}

// copyRecords adds missing records to the target. A record has no key, so both histories are read in the
// order of the records' ends, and records of the same time are counted. The source has deleted additional
// records of the target since they were copied; the target deletes them by its own limits.
func (c *copying) copyRecords(ctx context.Context, pass int, namespaces map[string]bool) error {
	for _, s := range []side{c.from, c.to} {
		names, err := s.recordNamespaces(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			namespaces[name] = true
		}
	}
	for _, name := range sortedKeys(namespaces) {
		n := NamespaceReport{Namespace: name}
		if err := c.copyNamespaceRecords(ctx, pass, &n); err != nil {
			return err
		}
		if n.Source+n.Target > 0 {
			c.report.Namespaces = append(c.report.Namespaces, n)
		}
		c.report.Forgot += n.Forgot
	}
	c.o.Progress(Progress{Pass: pass, Records: true, Done: c.report.Records})
	return nil
}

// copyNamespaceRecords copies the records of a namespace.
func (c *copying) copyNamespaceRecords(ctx context.Context, pass int, n *NamespaceReport) error {
	source, target := c.from.readMoments(ctx, c.o.From, n.Namespace, c.o.Batch),
		c.to.readMoments(ctx, c.o.To, n.Namespace, c.o.Batch)
	defer source.stopReading()
	defer target.stopReading()
	for {
		want, err := source.peekItem()
		if err != nil {
			return err
		}
		have, err := target.peekItem()
		if err != nil {
			return err
		}
		if want == nil && have == nil {
			return c.flushRecords(ctx, n)
		}
		var ours, theirs []rouse.Record // of the same time
		if want != nil && (have == nil || want.ended >= have.ended) {
			ours = want.records
		}
		if have != nil && (want == nil || have.ended >= want.ended) {
			theirs = have.records
		}
		if ours != nil {
			source.advanceItem()
			n.Source += int64(len(ours))
			c.report.Records += int64(len(ours))
			c.o.Progress(Progress{Pass: pass, Records: true, Done: c.report.Records})
		}
		if theirs != nil {
			target.advanceItem()
			n.Target += int64(len(theirs))
		}
		if err := c.copyMoment(ctx, n, ours, theirs); err != nil {
			return err
		}
	}
}

// copyMoment adds the missing records of one time to the target.
func (c *copying) copyMoment(ctx context.Context, n *NamespaceReport, want, have []rouse.Record) error {
	if slices.EqualFunc(want, have, sameRecord) {
		return nil
	}
	left := map[string]int{} // records of the target not yet found in the source
	for i := range have {
		left[recordText(&have[i])]++
	}
	known := map[string]bool{}
	for _, r := range slices.Backward(want) { // in the order in which they were written
		text := recordText(&r)
		known[text] = true
		if left[text] > 0 {
			left[text]--
			continue
		}
		if c.looking {
			c.recordDifference("%s is missing in %s", titleOf(&r), c.o.To)
			continue
		}
		c.report.Last.RecordsWritten++
		if c.o.Dry {
			continue
		}
		if c.logs = append(c.logs, r); len(c.logs) >= c.o.Batch {
			if err := c.flushRecords(ctx, n); err != nil {
				return err
			}
		}
	}
	for i := range have {
		switch text := recordText(&have[i]); {
		case left[text] == 0:
			continue
		case known[text]:
			c.recordDifference("%s is in %s more often than in %s", titleOf(&have[i]), c.o.To, c.o.From)
		default:
			n.Forgot++
		}
		left[recordText(&have[i])]--
	}
	return nil
}

// flushRecords writes the pending records, together with a new version of the marker.
func (c *copying) flushRecords(ctx context.Context, n *NamespaceReport) error {
	if len(c.logs) == 0 {
		return nil
	}
	if err := c.writeMarker(ctx, c.marker, c.logs...); err != nil {
		return fmt.Errorf("write records to %s: %w", c.o.To, err)
	}
	n.Target += int64(len(c.logs))
	c.logs = nil
	return nil
}

func sameRecord(a, b rouse.Record) bool {
	if !slices.Equal(a.Failures, b.Failures) || !reflect.DeepEqual(a.Answer, b.Answer) {
		return false
	}
	a.Failures, b.Failures = nil, nil
	return a.Namespace == b.Namespace && a.Name == b.Name && a.Generation == b.Generation && a.Ending == b.Ending &&
		a.Manual == b.Manual &&
		a.Due == b.Due && a.LastDue == b.LastDue && a.Count == b.Count && a.Attempts == b.Attempts && a.Code == b.Code &&
		a.Cause == b.Cause && a.Other == b.Other && a.OtherManual == b.OtherManual && a.Reason == b.Reason &&
		a.Began == b.Began && a.Sent == b.Sent && a.Ended == b.Ended
}

// recordText returns the same text for equal records.
func recordText(r *rouse.Record) string {
	return string(rouse.AppendRecord(append([]byte(r.Name), 0), r))
}

func titleOf(r *rouse.Record) string {
	return fmt.Sprintf("the record of %q in namespace %q, due %v, ended %v", r.Name, r.Namespace, r.Due, r.Ended)
}
