package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/store/mem"
)

func newNotes(t *testing.T) *Notes {
	store := mem.New()
	t.Cleanup(func() { store.Close() })
	return New(store, "reminders", 4)
}

var bucket = allocation.Bucket{ID: "B1", From: 1, To: 2000, Vector: "drftghrq", App: "x", Prefix: "B", State: allocation.Open}

func TestEachAppHasOnePrefix(t *testing.T) {
	k := newNotes(t)
	var asking sync.WaitGroup
	var mu sync.Mutex
	of := map[string]map[string]bool{}
	for i := range 60 {
		asking.Go(func() {
			app := fmt.Sprint("app", i%12)
			p, err := k.Prefix(t.Context(), app)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if of[p] == nil {
				of[p] = map[string]bool{}
			}
			of[p][app] = true
		})
	}
	asking.Wait()
	for p, apps := range of {
		if len(apps) != 1 {
			t.Errorf("%s is the prefix of %v", p, apps)
		}
	}
	if len(of) != 12 {
		t.Errorf("12 apps have %d prefixes", len(of))
	}
}

// TestTokensAreGivenOnce has several dispensers of one bucket, as instances that believe in different tables
// have, of which some die and some give back what they have.
func TestTokensAreGivenOnce(t *testing.T) {
	k := newNotes(t)
	var mu sync.Mutex
	given := map[int32]int{}
	var taking sync.WaitGroup
	for i := range 4 {
		taking.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			d := k.NewDispenser(bucket, 10)
			last := int32(0)
			for {
				tokens, err := d.Take(t.Context(), 1+r.IntN(5))
				if errors.Is(err, ErrSpent) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, token := range tokens {
					if given[token]++; given[token] > 1 || token < bucket.From || token > bucket.To || token <= last {
						t.Errorf("%d is given after %d, %d times", token, last, given[token])
					}
					last = token
				}
				mu.Unlock()
				switch r.IntN(12) {
				case 0: // it dies
					d = k.NewDispenser(bucket, 10)
					last = 0
				case 1:
					if err := d.Close(t.Context()); err != nil {
						t.Error(err)
					}
					d = k.NewDispenser(bucket, 10)
					last = 0
				case 2:
					if err := d.Save(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	taking.Wait()
	if len(given) < 1000 {
		t.Errorf("only %d tokens of 2000 were given", len(given))
	}
}

// TestWhatIsGivenBackIsGiven: one dispenser after another leaves nothing out, if each gives back what it has.
func TestWhatIsGivenBackIsGiven(t *testing.T) {
	k := newNotes(t)
	want := int32(1)
	for range 5 {
		d := k.NewDispenser(bucket, 100)
		for range 7 {
			tokens, err := d.Take(t.Context(), 1)
			if err != nil || tokens[0] != want {
				t.Fatalf("%v, %v instead of %d", tokens, err, want)
			}
			want++
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Take(t.Context(), 1); !errors.Is(err, ErrSpent) {
			t.Errorf("a closed bucket issues tokens, or returns %v", err)
		}
	}
	if till, err := k.Till(t.Context(), &bucket); err != nil || till.ConsumedTill != want-1 || till.Reserved != want-1 {
		t.Errorf("it is given out until %+v, %v", till, err)
	}
}

// TestADividedBucketGivesNothingTwice: the bucket is closed while a dispenser assigns tokens, and its parts
// continue after the tokens that it may have assigned.
func TestADividedBucketGivesNothingTwice(t *testing.T) {
	k := newNotes(t)
	d := k.NewDispenser(bucket, 50)
	given := map[int32]bool{}
	take := func(d *Dispenser) (n int) {
		for {
			tokens, err := d.Take(t.Context(), 1)
			if errors.Is(err, ErrSpent) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			if given[tokens[0]] {
				t.Fatalf("%d is given twice", tokens[0])
			}
			given[tokens[0]] = true
			if n++; n == 100 {
				return n
			}
		}
	}
	take(d)
	last, err := k.CloseBucket(t.Context(), &bucket)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.CloseBucket(t.Context(), &bucket); err != nil || again != last {
		t.Errorf("closed again it returns %d, %v instead of %d", again, err, last)
	}
	b := allocation.Book{Buckets: []allocation.Bucket{bucket}, Apps: map[string]*allocation.App{"x": {Prefix: "B", Made: 1, UpTo: 2000, Vector: bucket.Vector}}}
	parts := b.Split("B1", 50, last)
	if len(parts) != 2 {
		t.Fatalf("the parts are %+v", parts)
	}
	if err := k.OpenBucket(t.Context(), "B2", 3); err != nil { // left by a leader who died
		t.Fatal(err)
	}
	for i := range parts {
		if parts[i].From <= last {
			if err := k.OpenBucket(t.Context(), parts[i].ID, last); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(d) // what it had reserved
	for i := range parts {
		p := k.NewDispenser(parts[i], 50)
		for take(p) == 100 {
		}
	}
	if len(given) < 1900 {
		t.Errorf("only %d were given", len(given))
	}
}

// lossy is a store whose writes are made, or are not, and in both cases may fail.
type lossy struct {
	*mem.Store
	r  *rand.Rand
	mu sync.Mutex
}

func (l *lossy) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	l.mu.Lock()
	dice := l.r.IntN(10)
	l.mu.Unlock()
	if dice == 0 {
		return nil, rouse.ErrUnavailable
	}
	res, err := l.Store.Apply(ctx, changes)
	if dice == 1 {
		return nil, rouse.ErrUnavailable
	}
	return res, err
}

func TestTokensAreGivenOnceThoughAnswersAreLost(t *testing.T) {
	store := &lossy{Store: mem.New(), r: rand.New(rand.NewPCG(7, 7))}
	defer store.Close()
	k := New(store, "reminders", 1)
	given := map[int32]bool{}
	dispensers := []*Dispenser{k.NewDispenser(bucket, 5), k.NewDispenser(bucket, 5)}
	spent := 0
	for i := 0; spent < 2; i++ {
		d := dispensers[i%2]
		tokens, err := d.Take(t.Context(), 2)
		if errors.Is(err, ErrSpent) {
			spent++
			continue
		}
		spent = 0
		for _, token := range tokens {
			if given[token] {
				t.Fatalf("%d is given twice", token)
			}
			given[token] = true
		}
	}
	if len(given) < 500 {
		t.Errorf("only %d were given", len(given))
	}
}

// TestOneOfTwoLeadersWins: if two leaders write the next table from the same one, one write is refused, and
// that leader continues from the other's table.
func TestOneOfTwoLeadersWins(t *testing.T) {
	k := newNotes(t)
	plan := func(read *Read, clients ...string) (allocation.Book, map[string]allocation.Seat) {
		next, seats, _ := allocation.Plan(allocation.Situation{Book: read.Book, Seats: read.Seats, Clients: map[string][]string{"x": clients}, Prefixes: map[string]string{"x": "A"},
			Instances: []string{"i"}, Size: 10, Vector: allocation.Vector})
		return next, seats
	}
	first, err := k.Book(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paused, err := k.Book(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, seats := plan(first, "c1", "c2")
	if saved, err := k.SaveBook(t.Context(), first, next, seats); err != nil || !saved {
		t.Fatal(saved, err)
	}
	late, lateSeats := plan(paused, "c3")
	if saved, err := k.SaveBook(t.Context(), paused, late, lateSeats); err != nil || saved {
		t.Errorf("the one that was paused is heard: %v", err)
	}
	if changed, err := k.Changed(t.Context(), first.Revision()); err != nil || !changed {
		t.Errorf("nothing has changed: %v", err)
	}
	read, err := k.Book(t.Context())
	if err != nil || read.Book.Generation != 1 || len(read.Book.Buckets) != 2 || read.Seats["A1"].Client == read.Seats["A2"].Client || read.Seats["A1"].Client == "c3" {
		t.Errorf("the table is %+v, %v", read, err)
	}
	paused, err = k.Book(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range []*Read{read, paused} { // without a seat that would give the second one away
		next := r.Book.Clone()
		next.Generation++
		next.Buckets[0].State = []allocation.State{allocation.Ending, allocation.Spent}[i]
		if saved, err := k.SaveBook(t.Context(), r, next, r.Seats); err != nil || saved != (i == 0) {
			t.Errorf("%d: saved %v, %v", i, saved, err)
		}
	}
	if read, err = k.Book(t.Context()); err != nil || read.Book.Buckets[0].State != allocation.Ending {
		t.Fatal(read, err)
	}
	next, seats = plan(read)
	next.Remove("A2")
	delete(seats, "A2")
	if saved, err := k.SaveBook(t.Context(), read, next, seats); err != nil || !saved {
		t.Fatal(saved, err)
	}
	if read, err = k.Book(t.Context()); err != nil || len(read.Book.Buckets) != 1 || len(read.Seats) != 1 {
		t.Errorf("after one was removed the table is %+v, %v", read, err)
	}
}

// counting counts what is written.
type counting struct {
	note.Store
	notes, bytes int
}

func (c *counting) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	for _, ch := range changes {
		if c.notes++; ch.To != nil {
			c.bytes += len(ch.To.Body)
		}
	}
	return c.Store.Apply(ctx, changes)
}

// TestAChangeOfTheTableWritesWhatHasChanged: however many buckets there are. A book that an earlier version
// has kept in one note is read, and is kept in many from the next change on.
func TestAChangeOfTheTableWritesWhatHasChanged(t *testing.T) {
	store := &counting{Store: mem.New()}
	k := New(store, "reminders", 4)
	old := allocation.Book{Generation: 7}
	for range 2000 {
		old.Make("x", "A", 10, func() string { return "abcdefgh" })
	}
	if _, err := k.notes.Put(t.Context(), note.Set(consumedNote, &old, rouse.NoRow)); err != nil {
		t.Fatal(err)
	}
	save := func(change func(*allocation.Book)) (notes, bytes int) {
		t.Helper()
		read, err := k.Book(t.Context())
		if err != nil || len(read.Book.Buckets) < 2000 || read.Book.Apps["x"].Made != len(read.Book.Buckets) || read.Book.Buckets[1999].ID != "A2000" {
			t.Fatalf("%d buckets, %v", len(read.Book.Buckets), err)
		}
		next := read.Book.Clone()
		next.Generation++
		change(&next)
		seats := map[string]allocation.Seat{}
		for i := range next.Buckets {
			seats[next.Buckets[i].ID] = allocation.Seat{Client: "c", Instance: "i"}
		}
		store.notes, store.bytes = 0, 0
		if saved, err := k.SaveBook(t.Context(), read, next, seats); err != nil || !saved {
			t.Fatal(saved, err)
		}
		return store.notes, store.bytes
	}
	save(func(*allocation.Book) {})
	if notes, bytes := save(func(b *allocation.Book) { b.Buckets[3].State = allocation.Spent }); notes != 2 || bytes > 300 {
		t.Errorf("a bucket that is spent costs %d notes of %d bytes", notes, bytes)
	}
	if notes, bytes := save(func(b *allocation.Book) { b.Make("x", "A", 10, func() string { return "abcdefgh" }) }); notes != 4 || bytes > 500 {
		t.Errorf("a new bucket costs %d notes of %d bytes", notes, bytes)
	}
	if read, err := k.Book(t.Context()); err != nil || read.Book.Generation != 10 || len(read.Book.Buckets) != 2001 || read.Book.Buckets[3].State != allocation.Spent {
		t.Errorf("in the end: %d buckets of generation %d, %v", len(read.Book.Buckets), read.Book.Generation, err)
	}
}

func TestInstancesAndAliases(t *testing.T) {
	k := newNotes(t)
	for _, i := range []Instance{{Address: "b", Load: 1}, {Address: "a", Clients: []Client{{"x", "A", "c"}}}, {Address: "b", Load: 2, Low: []string{"A1"}}} {
		if err := k.Say(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
	}
	list, err := k.Instances(t.Context())
	if err != nil || len(list) != 2 || list[0].Clients[0].Address != "c" || list[1].Load != 2 {
		t.Errorf("the instances are %+v, %v", list, err)
	}
	if err := k.DeleteInstance(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if list, err = k.Instances(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("the instances are %+v, %v", list, err)
	}
	if err := k.SetAliases(t.Context(), []string{"new1", "new2"}, []string{"first", "first"}); err != nil {
		t.Fatal(err)
	}
	if err := k.SetAliases(t.Context(), []string{"new0", "new1"}, []string{"other", "other"}); !errors.Is(err, rouse.ErrConflict) || !strings.Contains(err.Error(), "id new1 was given to another reminder") {
		t.Errorf("an id is given to two: %v", err)
	}
	if name, err := k.Alias(t.Context(), "new0"); err != nil || name != "" {
		t.Errorf("an id of a refused write names %q, %v", name, err)
	}
	if name, err := k.Alias(t.Context(), "new2"); err != nil || name != "first" {
		t.Errorf("it names %q, %v", name, err)
	}
	if err := k.DropAlias(t.Context(), "new1"); err != nil {
		t.Fatal(err)
	}
	var ids []string
	err = k.EachAlias(t.Context(), func(id, name string) error {
		ids = append(ids, id+" "+name)
		return nil
	})
	if err != nil || !slices.Equal(ids, []string{"new2 first"}) {
		t.Errorf("the aliases are %q, %v", ids, err)
	}
}
