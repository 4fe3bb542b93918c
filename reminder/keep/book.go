package keep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse/reminder/book"
)

const (
	consumedNote     = "tokenBucket||consumed"
	allocationPrefix = "tokenBucket||allocations||"
)

// Read is a book as it was read, with the revisions that a write of the next one names.
type Read struct {
	Book  book.Book
	Seats map[string]book.Seat

	revision uint64
	seats    map[string]uint64
}

// Revision tells versions of the book apart; 0 is none yet.
func (r *Read) Revision() uint64 { return r.revision }

// Changed says whether the book has another revision than the given one. It costs less than a Book.
func (k *Keeper) Changed(ctx context.Context, revision uint64) (bool, error) {
	notes, err := k.get(ctx, consumedNote)
	return err == nil && notes[0].revision != revision, err
}

// Book reads the buckets and who deals with them.
func (k *Keeper) Book(ctx context.Context) (*Read, error) {
	notes, err := k.get(ctx, consumedNote) // before the seats, which are written before it
	if err != nil {
		return nil, err
	}
	r := &Read{Seats: map[string]book.Seat{}, revision: notes[0].revision, seats: map[string]uint64{}}
	if err := notes[0].read(&r.Book); err != nil {
		return nil, err
	}
	return r, k.list(ctx, allocationPrefix, func(n note) error {
		var seat book.Seat
		if err := n.read(&seat); err != nil {
			return err
		}
		id := strings.TrimPrefix(n.name, allocationPrefix)
		r.Seats[id], r.seats[id] = seat, n.revision
		return nil
	})
}

// SaveBook writes the next book and its seats. saved is false if somebody else has written since the given one was read: then some
// seats may be written, which the next one who leads finds and goes on from.
//
// The seats come first and the book last: it is what others look at to see whether anything is new.
func (k *Keeper) SaveBook(ctx context.Context, was *Read, next book.Book, seats map[string]book.Seat) (saved bool, err error) {
	var writes []write
	for _, id := range slices.Sorted(maps.Keys(seats)) {
		if old, ok := was.Seats[id]; !ok || old != seats[id] {
			writes = append(writes, write{allocationPrefix + id, seats[id], was.seats[id]})
		}
	}
	for id := range was.Seats {
		if _, ok := seats[id]; !ok {
			writes = append(writes, write{allocationPrefix + id, nil, was.seats[id]})
		}
	}
	for part := range slices.Chunk(writes, 500) {
		res, err := k.put(ctx, part...)
		if err != nil {
			return false, fmt.Errorf("write who deals with the token buckets: %w", err)
		}
		for _, r := range res {
			if !r.Applied {
				return false, nil
			}
		}
	}
	res, err := k.put(ctx, write{consumedNote, &next, was.revision})
	if err != nil {
		return false, fmt.Errorf("write the token buckets: %w", err)
	}
	return res[0].Applied, nil
}
