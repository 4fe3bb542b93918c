// Package book says what ids reminders have, which tokens there are to make them of, and who deals with which. It is pure.
//
// An app has a prefix, A to Z, AA and so on. Its tokens are the numbers from 1 on, in buckets of equal size; a bucket is one
// sidecar's, which makes reminders of its tokens and executes them, and one instance's, which gives out the tokens. When the numbers of
// int32 are used up, they begin again with another vector, eight letters that are part of every id: so no id is ever there twice.
//
//	reminder||B||200143||drftghrq
//	          │    │         └ the vector of the iteration
//	          │    └ the token
//	          └ the prefix of the app
//
// Plan makes the table: it is what the leader does. Everybody else has a Table to look things up.
package book

import (
	"cmp"
	"crypto/rand"
	"maps"
	"math"
	"slices"
	"strconv"
)

// DefaultSize is how many tokens a bucket has.
const DefaultSize = 100_000

// State says what a bucket is good for.
type State string

// States of buckets. Its reminders go on in each of them.
const (
	Open    State = "open"    // it has tokens to give
	Ending  State = "ending"  // it has few left, and another one is there already
	Spent   State = "spent"   // it has none left
	Divided State = "divided" // it was hot, and gives none any more: what was left of its range went to others
)

// Gives says whether tokens of the bucket are given out.
func (s State) Gives() bool { return s == Open || s == Ending }

// Bucket is a range of tokens.
type Bucket struct {
	ID     string `json:"id"`
	From   int32  `json:"rangeFrom,string"`
	To     int32  `json:"rangeTo,string"` // included
	Vector string `json:"vector"`
	App    string `json:"app"`
	Prefix string `json:"prefix"`
	State  State  `json:"state"`
	// Of are the buckets that it was a part of: reminders that were made then bear their names.
	Of []string `json:"of,omitempty"`
	// Kept says that it is of more buckets than can be named, so that it cannot be told whether it has reminders: it stays.
	Kept bool `json:"kept,omitempty"`
}

// maxOf bounds the names of buckets that one bears.
const maxOf = 100

// Has says whether an id was made of a token of the bucket.
func (b *Bucket) Has(id ID) bool {
	return b.Prefix == id.Prefix && b.Vector == id.Vector && b.From <= id.Token && id.Token <= b.To
}

// App is how far the tokens of an app have been put into buckets.
type App struct {
	Prefix string `json:"prefix"`
	Made   int    `json:"made"`        // buckets so far: the number of the last one
	UpTo   int32  `json:"upTo,string"` // the last token of this iteration that is in a bucket
	Vector string `json:"vector"`      // of this iteration
}

// Seat is who deals with a bucket.
type Seat struct {
	Client   string `json:"sidecarInstance"`
	Instance string `json:"remSerInstance"`
}

// Book is everything that is known of buckets.
type Book struct {
	Generation uint64          `json:"generation,string"`
	Buckets    []Bucket        `json:"tokenBuckets"` // of each app in the order in which they were made
	Apps       map[string]*App `json:"apps"`
}

// Clone returns a copy that shares nothing that changes.
func (b *Book) Clone() Book {
	c := Book{Generation: b.Generation, Buckets: append([]Bucket(nil), b.Buckets...), Apps: make(map[string]*App, len(b.Apps))}
	for name, app := range b.Apps {
		copied := *app
		c.Apps[name] = &copied
	}
	return c
}

// Make adds a bucket of the given size for an app, in the next part of its tokens. prefix is that of the app, vector makes up a new one.
// What does not fill a bucket at the end of an iteration is left out.
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
	made := Bucket{ID: app.Prefix + strconv.Itoa(app.Made), From: app.UpTo + 1, To: app.UpTo + size, Vector: app.Vector, App: name, Prefix: app.Prefix, State: Open}
	app.UpTo = made.To
	b.Buckets = append(b.Buckets, made)
	return made
}

// Split divides a bucket after the token at: it keeps what is up to there, and two new ones share the rest. The tokens until given have been
// given out, or may have been; nobody gives out others of the bucket any more. It returns the new buckets, none if there is nothing
// to divide.
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
			p := Bucket{ID: app.Prefix + strconv.Itoa(app.Made), From: from, To: to, Vector: old.Vector, App: old.App, Prefix: old.Prefix, State: Open, Of: of}
			if given >= to {
				p.State = Spent
			}
			return p
		}
		middle := max(at, min(given, old.To)) // reminders lie between at and here, tokens after it
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

// Merge joins buckets without tokens that lie next to each other, until there are no more than so many or nothing is left to join, and says
// whether it has joined any. The one with the lower tokens stays, with those who deal with it.
func (b *Book) Merge(until int) bool {
	lines := map[line][]int{}
	for i := range b.Buckets {
		l := line{b.Buckets[i].Prefix, b.Buckets[i].Vector}
		lines[l] = append(lines[l], i)
	}
	gone := map[int]bool{}
	for _, l := range slices.SortedFunc(maps.Keys(lines), func(x, y line) int { return cmp.Or(cmp.Compare(x.prefix, y.prefix), cmp.Compare(x.vector, y.vector)) }) {
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
				b.Buckets[last].join(&b.Buckets[i])
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

// join takes over the tokens of a bucket that lies behind it.
func (b *Bucket) join(next *Bucket) {
	b.To, b.State = max(b.To, next.To), Spent
	b.Of = append(append(slices.Clone(b.Of), next.ID), next.Of...)
	if b.Kept = b.Kept || next.Kept || len(b.Of) > maxOf; b.Kept {
		b.Of = nil
	}
}

// Remove takes a bucket out. Its tokens are not given again.
func (b *Book) Remove(id string) {
	for i := range b.Buckets {
		if b.Buckets[i].ID == id {
			b.Buckets = append(b.Buckets[:i:i], b.Buckets[i+1:]...)
			return
		}
	}
}

// Vector makes up eight letters.
func Vector() string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 0, vectorLength)
	var random [64]byte
	for len(b) < vectorLength {
		_, _ = rand.Read(random[:]) // it does not fail
		for _, c := range random {
			if int(c) < 256/len(letters)*len(letters) && len(b) < vectorLength { // the rest would make some letters likelier
				b = append(b, letters[int(c)%len(letters)])
			}
		}
	}
	return string(b)
}
