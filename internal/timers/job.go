package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/throttle"
)

// A job (rouse.Job) is a row that needs attention at once, until its work is done. The node that has its
// bucket does a page of the work, and then writes the row with the place that it has come to, so that it is
// due again. After a crash the page is done again: each change is conditional, and is made once. Two nodes on
// one job do no harm, because the row that each writes has to be the one that it read.

// working has the methods of Timers for jobs.
type working struct{ *Timers }

// jobRow is a job as its row has it.
type jobRow struct {
	Job      rouse.Job     `json:"job"`
	Err      *storedError  `json:"error,omitempty"`
	Failures []failedRow   `json:"failures,omitempty"`
	Bulk     *BulkRequest  `json:"bulk,omitempty"`
	Caller   access.Caller `json:"caller"`
	Cursor   rouse.Key     `json:"cursor"` // the work is done up to this key
	// of a bulk change with a limit: the rows up to this key are counted, and being changed
	Until rouse.Key         `json:"until"`
	Zones map[string]string `json:"zones,omitempty"` // of an evaluation: the rules by which it moves timers
	// timers that are being deleted: the rows next to them have to go, too
	Sweep []rouse.Key `json:"sweep,omitempty"`

	bucket     uint32
	generation uint64
	revision   uint64
}

type failedRow struct {
	Key rouse.Key   `json:"key"`
	Err storedError `json:"error"`
}

// storedError is an error that a job keeps.
type storedError struct {
	Class   string         `json:"class,omitempty"`
	Text    string         `json:"text"`
	Invalid *rouse.Invalid `json:"invalid,omitempty"`
}

func storeError(err error) storedError {
	s := storedError{Text: rouse.CleanText(err.Error(), rouse.MaxDetail)}
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		s.Invalid = inv
	} else if class := rouse.ErrorClass(err); class != nil {
		s.Class = class.Error()
	}
	return s
}

func (s *storedError) restoreError() error {
	if s.Invalid != nil {
		return s.Invalid
	}
	return rouse.ErrorOf(s.Class, s.Text)
}

// attentionRow returns the row that needs attention at a time.
func (j *jobRow) attentionRow(at rouse.Instant) (rouse.Timer, error) {
	stored := *j
	stored.Job.Err, stored.Job.Failures = nil, nil
	body, err := json.Marshal(&stored)
	t := j.Job.Row(j.bucket, body, at)
	t.Generation, t.Revision = j.generation, j.revision
	return t, err
}

// readJob reads a job from its row.
func readJob(t *rouse.Timer) (jobRow, error) {
	var j jobRow
	if err := json.Unmarshal(t.Spec.Payload, &j); err != nil {
		return j, fmt.Errorf("the job %s/%s cannot be read: %w", t.Key.Namespace, t.Key.Name, err)
	}
	j.bucket, j.generation, j.revision = t.Bucket, t.Generation, t.Revision
	if j.Err != nil {
		j.Job.Err = j.Err.restoreError()
	}
	for _, f := range j.Failures {
		j.Job.Failures = append(j.Job.Failures, rouse.JobFailure{Key: f.Key, Err: f.Err.restoreError()})
	}
	return j, nil
}

// countFailure counts a row that could not be changed.
func (j *jobRow) countFailure(key rouse.Key, err error) {
	if j.Job.Failed++; len(j.Failures) < rouse.MaxJobFailures {
		j.Failures = append(j.Failures, failedRow{key, storeError(err)})
	}
}

// endJob ends a job.
func (j *jobRow) endJob(state rouse.JobState, err error, now rouse.Instant) {
	j.Job.State, j.Job.Ended, j.Job.Updated = state, now, now
	if err != nil {
		stored := storeError(err)
		j.Err = &stored
	}
}

// newJob returns a job that begins now. Its row is in the bucket.
func (ts working) newJob(ctx context.Context, kind rouse.JobKind, namespace, id string, bucket uint32) jobRow {
	now := ts.Engine.Latest()
	j := jobRow{Job: rouse.Job{Namespace: namespace, ID: id, Kind: kind, State: rouse.JobRunning, Created: now,
		Updated: now},
		Caller: ts.access.CallerOf(ctx), bucket: bucket}
	j.Job.By = j.Caller.ID
	return j
}

// bulkID begins the ids of bulk changes.
const bulkID = "bulk-"

// newBulkID returns an id for a bulk change that begins at a time.
func newBulkID(now rouse.Instant) string {
	return fmt.Sprintf("%s%09s-%05s", bulkID, strconv.FormatInt(int64(now), 36),
		strconv.FormatUint(rand.Uint64N(36*36*36*36*36), 36))
}

// roomForJob removes the oldest job of a namespace that has ended, if it has as many as it may. Tenants share
// the room of the jobs of all namespaces.
func (ts working) roomForJob(ctx context.Context, namespace string) error {
	space := rouse.JobKey(namespace, "").Namespace
	shared, most := namespace == rouse.Everywhere && ts.access != nil, rouse.MaxJobs
	if shared { // a tenant that has fewer has its share, whatever the others have
		most = jobShare(rouse.MaxJobs)
	}
	n, err := ts.store.Count(ctx, rouse.JobQuery(space, bulkID, 0))
	if err != nil || n < int64(most) {
		return err
	}
	held := n
	var of string
	if shared {
		if of, held, err = ts.fullestShare(ctx, space); err != nil || held == 0 {
			return err
		}
	}
	removed := false
	err = ts.eachJob(ctx, space, func(row *rouse.Row, j *jobRow) (bool, error) {
		if j.Job.State == rouse.JobRunning || shared && j.Caller.Tenant() != of {
			return true, nil
		}
		out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: rouse.Change{Key: row.Key, If: row.Revision}})
		removed = out.Applied
		return !removed, err
	})
	if err != nil || removed {
		return err
	}
	return fmt.Errorf("the namespace %s has %d jobs that are running, as many as it may: wait, or cancel some: %w",
		namespace, held, rouse.ErrOverloaded)
}

// jobShare returns how many jobs of all namespaces a tenant may have, if left are those that it has and the
// places that are free.
func jobShare(left int) int { return throttle.Share(left, rouse.MaxJobs, throttle.Reserve, 1) }

// fullestShare returns the tenant of whose jobs one has to go, before the caller has another one, and how
// many that has; 0 if there is room. It is the caller's own if it has its share. If it has none, and no place
// is free, it is the one with the most jobs, of those with jobs that have ended.
func (ts working) fullestShare(ctx context.Context, space string) (tenant string, held int64, err error) {
	caller := ts.access.CallerOf(ctx)
	own, all, most := caller.Tenant(), 0, 0
	jobs, ended := map[string]int{}, map[string]bool{}
	err = ts.eachJob(ctx, space, func(_ *rouse.Row, j *jobRow) (bool, error) {
		of := j.Caller.Tenant()
		all++
		jobs[of]++
		ended[of] = ended[of] || j.Job.State != rouse.JobRunning
		return true, nil
	})
	if err != nil || jobs[own] < jobShare(jobs[own]+max(0, rouse.MaxJobs-all)) {
		return "", 0, err
	}
	if jobs[own] > 0 {
		return own, int64(jobs[own]), nil
	}
	for of, n := range jobs {
		if ended[of] && n > most {
			tenant, most = of, n
		}
	}
	return tenant, int64(cmp.Or(most, all)), nil
}

// eachJob calls f with the bulk changes of a namespace, oldest first, until it returns false or an error.
func (ts working) eachJob(ctx context.Context, space string,
	f func(row *rouse.Row, j *jobRow) (more bool, err error)) error {
	q := rouse.JobQuery(space, bulkID, 100)
	for {
		page, err := ts.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			j, err := ts.readJobRow(&page.Rows[i])
			if err != nil { // it is left alone
				continue
			}
			if more, err := f(&page.Rows[i], &j); err != nil || !more {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

func (ts working) readJobRow(row *rouse.Row) (jobRow, error) {
	t, err := ts.Read(row)
	if err != nil {
		return jobRow{}, err
	}
	return readJob(&t)
}

// jobOf reads a job.
func (ts working) jobOf(ctx context.Context, namespace, id string) (jobRow, error) {
	rows, err := ts.store.Get(ctx, []rouse.Key{rouse.JobKey(namespace, id)})
	if err != nil {
		return jobRow{}, err
	}
	if rows[0].Revision == 0 {
		return jobRow{}, fmt.Errorf("job %q: %w", id, rouse.ErrNotFound)
	}
	return ts.readJobRow(&rows[0])
}
