package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

// openRaw opens a fresh store of the kind that the server under test uses.
func openRaw(o Options) (rouse.Store, func(), error) {
	dir, err := os.MkdirTemp(o.Dir, "rouse-raw-")
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(context.Background(), o.Store+":"+filepath.Join(dir, "data"), store.Options{})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return s, func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// newRowChanges are the rows that the server would write for the timers from first on.
func newRowChanges(body func(i int64) []byte, first int64, n int, due func(i int64) time.Time) []rouse.Change {
	changes := make([]rouse.Change, n)
	for j := range changes {
		i := first + int64(j)
		d := rouse.At(due(i))
		t := rouse.Timer{Key: rouse.Key{Namespace: namespace, Name: benchTimerName(i)}, Visible: d, Due: d, Created: d,
			Updated: d, Anchor: d,
			Spec: rouse.Spec{Schedule: d.String(), Target: "stream:bench", Payload: body(i)}}
		row := t.Row()
		changes[j] = rouse.Change{Key: t.Key, If: rouse.NoRow, To: &row}
	}
	return changes
}

// rawCreate writes n timers straight into a store, in batches; only the store's time counts.
func rawCreate(ctx context.Context, o Options, n int64, batch int) (Raw, error) {
	return rawRun(o, n, batch, farDueTime, fmt.Sprintf("the same rows straight into the store, batches of %d, one writer",
		batch),
		func(s rouse.Store, changes []rouse.Change) error {
			_, err := s.Apply(ctx, changes)
			return err
		})
}

// rawPipeline creates, reads and deletes n timers straight in a store, in batches, with the records that the
// server would write.
func rawPipeline(ctx context.Context, o Options, n int64, batch int) (Raw, error) {
	var after rouse.Position
	began := time.Now().Add(-time.Hour)
	due := func(i int64) time.Time { return began.Add(time.Duration(i) * time.Microsecond * 50) }
	return rawRun(o, n, batch, due,
		fmt.Sprintf("create, read and delete the same rows straight in the store, with records, batches of %d", batch),
		func(s rouse.Store, changes []rouse.Change) error {
			if _, err := s.Apply(ctx, changes); err != nil {
				return err
			}
			b, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}, After: after, Limit: batch})
			if err != nil {
				return err
			}
			removes := make([]rouse.Change, len(b.Rows))
			for j := range b.Rows {
				row := &b.Rows[j]
				removes[j] = rouse.Change{Key: row.Key, If: row.Revision,
					Log: []rouse.Record{{Namespace: row.Key.Namespace, Name: row.Key.Name,
						Generation: row.Generation, Ending: rouse.EndFired, Due: row.Due, Attempts: 1, Began: b.Now, Sent: b.Now,
						Ended: b.Now}}}
				after = row.Position()
			}
			_, err = s.Apply(ctx, removes)
			return err
		})
}

// rawRun measures do, which is called with n timers in batches. Its time counts, and the CPU time that the
// process uses during it; making the rows does not.
func rawRun(o Options, n int64, batch int, due func(i int64) time.Time, what string,
	do func(rouse.Store, []rouse.Change) error) (Raw, error) {
	s, done, err := openRaw(o)
	if err != nil {
		return Raw{}, err
	}
	defer done()
	body := newPayloads(o.Size)
	var took, used time.Duration
	const together = 50 // as the CPU time is known to 10 ms only
	var batches [][]rouse.Change
	for i := int64(0); i < n; {
		batches = batches[:0]
		for len(batches) < together && i < n {
			batches = append(batches, newRowChanges(body, i, batch, due))
			i += int64(batch)
		}
		began, before := time.Now(), processUsage(os.Getpid()).cpu
		for _, changes := range batches {
			if err := do(s, changes); err != nil {
				return Raw{}, err
			}
		}
		took += time.Since(began)
		used += processUsage(os.Getpid()).cpu - before
	}
	return Raw{What: what, Rate: float64(n) / took.Seconds(), CPU: perTimer(used, n)}, nil
}
