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

// rows are the rows that the server would write for the timers from first on.
func rows(body []byte, first int64, n int, due func(i int64) time.Time) []rouse.Change {
	changes := make([]rouse.Change, n)
	for j := range changes {
		i := first + int64(j)
		d := rouse.At(due(i))
		t := rouse.Timer{Key: rouse.Key{Namespace: namespace, Name: name(i)}, Visible: d, Due: d, Created: d, Updated: d, Anchor: d,
			Spec: rouse.Spec{Schedule: d.String(), Target: "stream:bench", Payload: body}}
		row := t.Row()
		changes[j] = rouse.Change{Key: t.Key, If: rouse.NoRow, To: &row}
	}
	return changes
}

// rawCreate writes n timers straight into a store, in batches; only the store's time counts.
func rawCreate(ctx context.Context, o Options, n int64, batch int) (Raw, error) {
	s, done, err := openRaw(o)
	if err != nil {
		return Raw{}, err
	}
	defer done()
	body := payload(o.Size)
	var took time.Duration
	for i := int64(0); i < n; i += int64(batch) {
		changes := rows(body, i, batch, far)
		began := time.Now()
		if _, err := s.Apply(ctx, changes); err != nil {
			return Raw{}, err
		}
		took += time.Since(began)
	}
	return Raw{What: fmt.Sprintf("the same rows straight into the store, batches of %d, one writer", batch), Rate: float64(n) / took.Seconds()}, nil
}

// rawPipeline creates, reads and deletes n timers straight in a store, in batches.
func rawPipeline(ctx context.Context, o Options, n int64, batch int) (Raw, error) {
	s, done, err := openRaw(o)
	if err != nil {
		return Raw{}, err
	}
	defer done()
	body := payload(o.Size)
	var took time.Duration
	var after rouse.Position
	due := time.Now().Add(-time.Hour)
	for i := int64(0); i < n; i += int64(batch) {
		changes := rows(body, i, batch, func(i int64) time.Time { return due.Add(time.Duration(i) * time.Microsecond * 50) })
		began := time.Now()
		if _, err := s.Apply(ctx, changes); err != nil {
			return Raw{}, err
		}
		b, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}, After: after, Limit: batch})
		if err != nil {
			return Raw{}, err
		}
		removes := make([]rouse.Change, len(b.Rows))
		for j := range b.Rows {
			row := &b.Rows[j]
			removes[j] = rouse.Change{Key: row.Key, If: row.Revision}
			after = row.Position()
		}
		if _, err := s.Apply(ctx, removes); err != nil {
			return Raw{}, err
		}
		took += time.Since(began)
	}
	return Raw{What: fmt.Sprintf("create, read and delete the same rows straight in the store, batches of %d, no records", batch), Rate: float64(n) / took.Seconds()}, nil
}
