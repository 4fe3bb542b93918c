package timers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
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

// roomForJob removes the oldest job of a namespace that has ended, if it has as many as it may.
func (ts working) roomForJob(ctx context.Context, namespace string) error {
	space := rouse.JobKey(namespace, "").Namespace
	n, err := ts.store.Count(ctx, rouse.JobQuery(space, bulkID, 0))
	if err != nil || n < rouse.MaxJobs {
		return err
	}
	q := rouse.JobQuery(space, bulkID, 100)
	for {
		page, err := ts.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			j, err := ts.readJobRow(&page.Rows[i])
			if err != nil || j.Job.State == rouse.JobRunning {
				continue
			}
			out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: rouse.Change{Key: page.Rows[i].Key,
				If: page.Rows[i].Revision}})
			if err != nil || out.Applied {
				return err
			}
		}
		if page.Next == nil {
			return fmt.Errorf("the namespace %s has %d jobs that are running, as many as it may: wait, or cancel some: %w",
				namespace, n, rouse.ErrOverloaded)
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
