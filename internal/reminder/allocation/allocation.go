// Package allocation defines the ids of reminders, the buckets of tokens from which they are made, and which
// sidecar and instance each bucket is assigned to. It is pure.
//
// An app has a prefix: A to Z, AA and so on. Its tokens are the numbers from 1 on, in buckets of equal size.
// A bucket is assigned to one sidecar, which creates reminders with its tokens and executes them, and to one
// instance, which issues the tokens. When the numbers of int32 are used up, they start again with another
// vector, eight letters that are part of every id; so no id occurs twice.
//
//	reminder||B||200143||drftghrq
//	          │    │         └ the vector of the iteration
//	          │    └ the token
//	          └ the prefix of the app
//
// Plan computes the table; only the leader does that. All others look things up in a Table.
package allocation

import (
	"cmp"
	"crypto/rand"
	"maps"
	"math"
	"slices"
	"strconv"
)

// DefaultSize is the default number of tokens in a bucket.
const DefaultSize = 100_000

// State is the state of a bucket.
type State string

// States of buckets. Existing reminders continue in all of them.
const (
	Open    State = "open"    // it has tokens to issue
	Ending  State = "ending"  // it has few left, and its successor exists
	Spent   State = "spent"   // it has none left
	Divided State = "divided" // it was hot and was split: it issues none, and the rest of its range went to other buckets
)

// Gives reports whether tokens of the bucket are issued.
func (s State) Gives() bool { return s == Open || s == Ending }

// Bucket is a range of tokens.
type Bucket struct {
	ID     string `json:"id"`
	From   int32  `json:"rangeFrom,string"`
	To     int32  `json:"rangeTo,string"` // inclusive
	Vector string `json:"vector"`
	App    string `json:"app"`
	Prefix string `json:"prefix"`
	State  State  `json:"state"`
	// Of are the buckets that this one was split from: reminders created before that have their names.
	Of []string `json:"of,omitempty"`
	// Kept means that it comes from more buckets than Of can list. It is then unknown whether it has
	// reminders, so it is kept.
	Kept bool `json:"kept,omitempty"`
}

// maxOf bounds Of.
const maxOf = 100

// Has reports whether an id has a token of the bucket.
func (b *Bucket) Has(id ID) bool {
	return b.Prefix == id.Prefix && b.Vector == id.Vector && b.From <= id.Token && id.Token <= b.To
}

// App records how far an app's tokens are divided into buckets.
type App struct {
	Prefix string `json:"prefix"`
	Made   int    `json:"made"`        // buckets created; the number of the last one
	UpTo   int32  `json:"upTo,string"` // the last token of this iteration that is in a bucket
	Vector string `json:"vector"`      // of this iteration
}

// Seat is the assignment of a bucket.
type Seat struct {
	Client   string `json:"sidecarInstance"`
	Instance string `json:"remSerInstance"`
}

// Book is all information about buckets.
type Book struct {
	Generation uint64          `json:"generation,string"`
	Buckets    []Bucket        `json:"tokenBuckets"` // per app in order of creation
	Apps       map[string]*App `json:"apps"`
}

// Clone returns a copy that shares no mutable data.
func (b *Book) Clone() Book {
	c := Book{Generation: b.Generation, Buckets: append([]Bucket(nil), b.Buckets...),
		Apps: make(map[string]*App, len(b.Apps))}
	for name, app := range b.Apps {
		copied := *app
		c.Apps[name] = &copied
	}
	return c
}

// Make adds a bucket of the given size with an app's next tokens. prefix is the app's prefix; vector
// generates a new vector. Tokens at the end of an iteration that do not fill a bucket are skipped.
func (b *Book) Make(name, prefix string, size int32, vector func() string) Bucket {
	if b.Apps == nil {
		b.Apps = map[string]*App{}
	}
	app := b.Apps[name]
	if app == nil {
		app = &App{Prefix: prefix}
		b.Apps[name] = app
	}
	if app.Vector == "" || app.UpTo > math.MaxInt32-size {
		last := app.Vector
		for app.Vector == last {
			app.Vector = vector()
		}
		app.UpTo = 0
	}
	app.Made++
	made := Bucket{ID: app.Prefix + strconv.Itoa(app.Made), From: app.UpTo + 1, To: app.UpTo + size, Vector: app.Vector,
		App: name, Prefix: app.Prefix, State: Open}
	app.UpTo = made.To
	b.Buckets = append(b.Buckets, made)
	return made
}

// Split splits a bucket after the token at: it keeps the tokens up to there, and two new buckets share the
// rest. Tokens up to given may have been issued; the bucket issues no further ones. It returns the new
// buckets, nil if there is nothing to split.
func (b *Book) Split(id string, at, given int32) []Bucket {
	for i := range b.Buckets {
		old := &b.Buckets[i]
		if old.ID != id {
			continue
		}
		app := b.Apps[old.App]
		if app == nil || at < old.From || at >= old.To {
			return nil
		}
		of := append(append([]string(nil), old.Of...), old.ID)
		part := func(from, to int32) Bucket {
			app.Made++
			p := Bucket{ID: app.Prefix + strconv.Itoa(app.Made), From: from, To: to, Vector: old.Vector, App: old.App,
				Prefix: old.Prefix, State: Open, Of: of}
			if given >= to {
				p.State = Spent
			}
			return p
		}
		middle := max(at, min(given, old.To)) // reminders lie between at and here, unissued tokens after it
		var parts []Bucket
		if rest := old.To - middle; middle > at && rest > 1 {
			parts = append(parts, part(at+1, middle+rest/2), part(middle+rest/2+1, old.To))
		} else {
			parts = append(parts, part(at+1, old.To))
		}
		old.To, old.State = at, Divided
		b.Buckets = append(b.Buckets, parts...)
		return parts
	}
	return nil
}

// Merge joins adjacent buckets without tokens until there are at most that many or none can be joined, and
// reports whether it joined any. The bucket with the lower tokens stays, with its assignment.
func (b *Book) Merge(until int) bool {
	lines := map[line][]int{}
	for i := range b.Buckets {
		l := line{b.Buckets[i].Prefix, b.Buckets[i].Vector}
		lines[l] = append(lines[l], i)
	}
	gone := map[int]bool{}
	for _, l := range slices.SortedFunc(maps.Keys(lines),
		func(x, y line) int { return cmp.Or(cmp.Compare(x.prefix, y.prefix), cmp.Compare(x.vector, y.vector)) }) {
		order := lines[l]
		slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.Buckets[x].From, b.Buckets[y].From) })
		last := -1
		for _, i := range order {
			if len(b.Buckets)-len(gone) <= until {
				break
			}
			switch {
			case b.Buckets[i].State.Gives():
				last = -1
			case last < 0:
				last = i
			default:
				b.Buckets[last].absorbNext(&b.Buckets[i])
				gone[i] = true
			}
		}
	}
	kept := b.Buckets[:0:0]
	for i := range b.Buckets {
		if !gone[i] {
			kept = append(kept, b.Buckets[i])
		}
	}
	b.Buckets = kept
	return len(gone) > 0
}

// absorbNext takes over the tokens of an adjacent higher bucket.
func (b *Bucket) absorbNext(next *Bucket) {
	b.To, b.State = max(b.To, next.To), Spent
	b.Of = append(append(slices.Clone(b.Of), next.ID), next.Of...)
	if b.Kept = b.Kept || next.Kept || len(b.Of) > maxOf; b.Kept {
		b.Of = nil
	}
}

// Remove removes a bucket. Its tokens are not issued again.
func (b *Book) Remove(id string) {
	for i := range b.Buckets {
		if b.Buckets[i].ID == id {
			b.Buckets = append(b.Buckets[:i:i], b.Buckets[i+1:]...)
			return
		}
	}
}

// Vector generates eight random letters.
func Vector() string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 0, vectorLength)
	var random [64]byte
	for len(b) < vectorLength {
		_, _ = rand.Read(random[:]) // it never fails
		for _, c := range random {
			// using the rest would make some letters more likely
			if int(c) < 256/len(letters)*len(letters) && len(b) < vectorLength {
				b = append(b, letters[int(c)%len(letters)])
			}
		}
	}
	return string(b)
}
