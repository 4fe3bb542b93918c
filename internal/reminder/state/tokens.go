package state

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

// Till is the progress of assigning the tokens of a bucket. All assigned tokens are at or below Reserved,
// also after a crash, because Reserved is written before the tokens are assigned. ConsumedTill is
// informational and may lag.
type Till struct {
	ConsumedTill int32 `json:"consumedTill,string"`
	Reserved     int32 `json:"reserved,string"`
	// no instance reserves any more: ConsumedTill is the last token that may have been assigned
	Closed bool `json:"closed,omitempty"`
}

func tillNote(bucket string) string { return "tokenBucket||" + bucket + "||consumedTill" }

// Till returns how far a bucket's tokens are given out.
func (k *Notes) Till(ctx context.Context, b *allocation.Bucket) (Till, error) {
	t, _, err := k.readTill(ctx, b)
	return t, err
}

func (k *Notes) readTill(ctx context.Context, b *allocation.Bucket) (Till, uint64, error) {
	notes, err := k.notes.Get(ctx, tillNote(b.ID))
	if err != nil {
		return Till{}, 0, err
	}
	t := Till{ConsumedTill: b.From - 1, Reserved: b.From - 1}
	return t, notes[0].Revision, notes[0].Read(&t)
}

// CloseBucket prevents all instances from reserving more tokens of a bucket, and returns the last one that
// may have been assigned.
func (k *Notes) CloseBucket(ctx context.Context, b *allocation.Bucket) (given int32, err error) {
	for range tries {
		t, revision, err := k.readTill(ctx, b)
		if err != nil {
			return 0, err
		}
		if t.Closed { // by a leader that died
			return t.ConsumedTill, nil
		}
		given = t.Reserved
		res, err := k.notes.Put(ctx, note.Set(tillNote(b.ID), Till{given, math.MaxInt32, true}, revision))
		if err != nil {
			return 0, err
		}
		if res[0].Applied {
			return given, nil
		}
	}
	return 0, errBusy
}

// OpenBucket writes down that the first tokens of a new bucket, which was a part of another one, are given
// out.
func (k *Notes) OpenBucket(ctx context.Context, id string, given int32) error {
	for range tries {
		notes, err := k.notes.Get(ctx, tillNote(id))
		if err != nil {
			return err
		}
		var t Till // a leader may have made a bucket of this name, and died before it was known
		if err := notes[0].Read(&t); err != nil {
			return err
		}
		if notes[0].Revision != 0 && t.Reserved >= given && !t.Closed {
			return nil
		}
		res, err := k.notes.Put(ctx, note.Set(tillNote(id), Till{ConsumedTill: given, Reserved: given}, notes[0].Revision))
		if err != nil || res[0].Applied {
			return err
		}
	}
	return errBusy
}

// DeleteBucket deletes the notes of a bucket that no longer exists.
func (k *Notes) DeleteBucket(ctx context.Context, id string) error {
	notes, err := k.notes.Get(ctx, tillNote(id))
	if err != nil || notes[0].Revision == 0 {
		return err
	}
	_, err = k.notes.Put(ctx, note.Delete(tillNote(id), notes[0].Revision))
	return err
}

// ErrSpent means that a bucket has no tokens left.
var ErrSpent = errors.New("the token bucket is spent")

// Dispenser gives out the tokens of a bucket, in order. Several of one bucket, on one node or on many, never
// give out the same.
type Dispenser struct {
	notes  *Notes
	bucket allocation.Bucket
	chunk  int32

	turn     chan struct{} // a mutex, with room for one value, which guards the fields below
	known    bool          // next, reserved and revision match the store, and no other instance reserves tokens
	next     int32
	reserved int32
	revision uint64
	written  int32 // ConsumedTill as it is in the store
	closed   bool
}

// NewDispenser returns a dispenser that reserves at least chunk tokens at a time.
func (k *Notes) NewDispenser(b allocation.Bucket, chunk int32) *Dispenser {
	return &Dispenser{notes: k, bucket: b, chunk: max(1, chunk), turn: make(chan struct{}, 1)}
}

func (d *Dispenser) lockTurn(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Dispenser) unlockTurn() { <-d.turn }

// Take gives out up to n tokens, at least one, or ErrSpent.
func (d *Dispenser) Take(ctx context.Context, n int) ([]int32, error) {
	if err := d.lockTurn(ctx); err != nil {
		return nil, err
	}
	defer d.unlockTurn()
	if d.closed {
		return nil, ErrSpent
	}
	if err := d.reserveTokens(ctx, int64(n)); err != nil {
		return nil, err
	}
	n = min(n, int(d.reserved-d.next)+1)
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = d.next
		d.next++
	}
	return tokens, nil
}

// reserveTokens ensures that at least one token is reserved, and n if the bucket has as many.
func (d *Dispenser) reserveTokens(ctx context.Context, n int64) error {
	for range tries {
		if d.known && int64(d.next)+n-1 <= int64(d.reserved) {
			return nil
		}
		if !d.known {
			t, revision, err := d.notes.readTill(ctx, &d.bucket)
			if err != nil {
				return err
			}
			d.revision, d.reserved, d.written, d.known = revision, t.Reserved, t.ConsumedTill, true
			if t.Reserved >= d.bucket.To {
				d.reserved = d.bucket.To
			}
			d.reserved = max(d.reserved, d.bucket.From-1)
			d.next = d.reserved + 1 // the instance that reserved the tokens below may have assigned them
		}
		if d.reserved >= d.bucket.To {
			if d.next > d.reserved {
				return ErrSpent
			}
			return nil
		}
		to := int32(min(int64(d.bucket.To), max(int64(d.reserved), int64(d.next)+n-1)+int64(d.chunk)))
		revision, err := d.writeTill(ctx, Till{ConsumedTill: d.next - 1, Reserved: to})
		switch {
		case err != nil: // it is not known whether it was written: then it is skipped
			d.known = false
			return err
		case revision == 0:
			d.known = false
		default:
			d.reserved = to
		}
	}
	return errBusy
}

// writeTill writes the bucket's note, and returns its revision, 0 if another instance has written it.
func (d *Dispenser) writeTill(ctx context.Context, t Till) (uint64, error) {
	res, err := d.notes.notes.Put(ctx, note.Set(tillNote(d.bucket.ID), t, d.revision))
	if err != nil {
		return 0, err
	}
	if !res[0].Applied {
		return 0, nil
	}
	d.revision, d.written = res[0].Revision, t.ConsumedTill
	return d.revision, nil
}

// Save writes down how far the tokens are given out, if that has changed.
func (d *Dispenser) Save(ctx context.Context) error {
	if err := d.lockTurn(ctx); err != nil {
		return err
	}
	defer d.unlockTurn()
	if !d.known || d.closed || d.written == d.next-1 {
		return nil
	}
	revision, err := d.writeTill(ctx, Till{ConsumedTill: d.next - 1, Reserved: d.reserved})
	d.known = err == nil && revision != 0
	return err
}

// Close returns the reserved tokens that were not assigned. It assigns no tokens afterwards.
func (d *Dispenser) Close(ctx context.Context) error {
	if err := d.lockTurn(ctx); err != nil {
		return err
	}
	defer d.unlockTurn()
	if d.closed {
		return nil
	}
	d.closed = true
	if !d.known || d.next > d.reserved && d.written == d.next-1 {
		return nil
	}
	if _, err := d.writeTill(ctx, Till{ConsumedTill: d.next - 1, Reserved: d.next - 1}); err != nil {
		return fmt.Errorf("give back the tokens of %s: %w", d.bucket.ID, err)
	}
	return nil
}
