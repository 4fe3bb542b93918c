package book

import (
	"maps"
	"slices"
)

// Situation is what the leader knows.
type Situation struct {
	Book  Book
	Seats map[string]Seat

	Clients   map[string][]string // of each app, those that are connected
	Prefixes  map[string]string   // of each app in Clients
	Instances []string            // that live

	Low    map[string]bool // buckets of which nearly all tokens are given
	Spent  map[string]bool // buckets of which all are
	Empty  map[string]bool // buckets without tokens and without reminders
	Splits map[string]Cut  // hot buckets, to which nobody gives out tokens any more

	Size   int32
	Most   int           // buckets that there are at most; 0 is no bound
	Merge  int           // from how many on those without tokens are merged; 0: they never are
	Vector func() string // makes up a vector
}

// Cut says where a bucket is divided.
type Cut struct {
	At    int32 // the last token that it keeps
	Given int32 // the last one that may have been given out
}

// Plan returns the book and the seats that the situation asks for, and whether they are others than before.
//
// Every connected client has a bucket that has tokens, of which there are made as many as that takes. What has no client, or no instance, that
// lives goes to those that have the fewest, and one that has come takes its share from those that have more. Nothing else moves: whoever
// stays keeps what it has. A bucket of an app of which no client is connected has none.
func Plan(s Situation) (Book, map[string]Seat, bool) {
	next := s.Book.Clone()
	changed := false
	for _, id := range slices.Sorted(maps.Keys(s.Splits)) {
		cut := s.Splits[id]
		changed = len(next.Split(id, cut.At, cut.Given)) > 0 || changed
	}
	for id := range s.Empty {
		next.Remove(id)
		changed = true
	}
	for i := range next.Buckets {
		b := &next.Buckets[i]
		state := b.State
		switch {
		case s.Spent[b.ID] && state.Gives():
			state = Spent
		case s.Low[b.ID] && state == Open:
			state = Ending
		}
		changed = changed || state != b.State
		b.State = state
	}
	for _, app := range slices.Sorted(maps.Keys(s.Clients)) {
		if len(s.Clients[app]) > 0 && s.Prefixes[app] != "" {
			changed = s.makeFor(&next, app) || changed
		}
	}
	if s.Merge != 0 && len(next.Buckets) > s.Merge {
		changed = next.Merge(s.Merge*3/4) || changed
	}
	seats := s.deal(&next)
	changed = changed || !maps.Equal(seats, s.Seats)
	if changed {
		next.Generation++
	}
	return next, seats, changed
}

// makeFor makes the buckets that an app's clients need: one for each that has none with tokens and would get none of those that are there,
// of clients that are gone, or of those that have several, if it has just come.
func (s *Situation) makeFor(b *Book, app string) (made bool) {
	open, has := map[string]int{}, map[string]bool{}
	loose := 0
	for i := range b.Buckets {
		bucket := &b.Buckets[i]
		if bucket.App != app {
			continue
		}
		owner := s.Seats[bucket.ID].Client
		lives := slices.Contains(s.Clients[app], owner)
		has[owner] = has[owner] || lives
		switch {
		case bucket.State != Open:
		case lives:
			open[owner]++
		default:
			loose++
		}
	}
	spare, came, without := 0, 0, 0
	for _, c := range s.Clients[app] {
		switch {
		case open[c] > 0:
			spare += open[c] - 1
		case has[c]:
			without++
		default:
			came++
		}
	}
	need := max(0, without-loose)
	need += max(0, came-max(0, loose-without)-spare)
	for ; need > 0 && (s.Most == 0 || len(b.Buckets) < s.Most); need-- {
		b.Make(app, s.Prefixes[app], s.Size, s.Vector)
		made = true
	}
	return made
}

// deal gives every bucket its client and its instance.
func (s *Situation) deal(b *Book) map[string]Seat {
	var open, rest []string // of all apps
	perApp := map[string]*[2][]string{}
	for i := range b.Buckets {
		bucket := &b.Buckets[i]
		of := perApp[bucket.App]
		if of == nil {
			of = &[2][]string{}
			perApp[bucket.App] = of
		}
		if bucket.State == Open {
			of[0], open = append(of[0], bucket.ID), append(open, bucket.ID)
		} else {
			of[1], rest = append(of[1], bucket.ID), append(rest, bucket.ID)
		}
	}
	clientOf := func(id string) string { return s.Seats[id].Client }
	clients := map[string]string{}
	for app, of := range perApp {
		evenly(s.Clients[app], clientOf, clients, of[0], of[1])
	}
	instances := map[string]string{}
	evenly(s.Instances, func(id string) string { return s.Seats[id].Instance }, instances, open, rest)
	seats := make(map[string]Seat, len(b.Buckets))
	for i := range b.Buckets {
		id := b.Buckets[i].ID
		seats[id] = Seat{Client: clients[id], Instance: instances[id]}
	}
	return seats
}

// evenly deals things out to owners: what is with an owner stays there, what is with none goes to those that have the fewest, and owners that
// had nothing take from those that have two more, of each kind.
func evenly(owners []string, was func(thing string) string, out map[string]string, kinds ...[]string) {
	if len(owners) == 0 {
		return
	}
	owners = slices.Sorted(slices.Values(owners))
	total := make(map[string]int, len(owners))
	for _, o := range owners {
		total[o] = 0
	}
	came := map[string]int{} // owners that had nothing, with what they have in all
	for _, o := range owners {
		came[o] = 0
	}
	for _, things := range kinds {
		for _, thing := range things {
			delete(came, was(thing))
		}
	}
	slices.SortStableFunc(owners, func(a, b string) int { // those that stay are served first: they take nothing from others
		_, x := came[a]
		_, y := came[b]
		switch {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	})
	for _, things := range kinds {
		mine := map[string][]string{}
		of := make(map[string]int, len(owners)) // of this kind
		var loose []string
		for _, thing := range things {
			if o := was(thing); o != "" {
				if _, lives := total[o]; lives {
					mine[o] = append(mine[o], thing)
					total[o]++
					of[o]++
					continue
				}
			}
			loose = append(loose, thing)
		}
		for _, thing := range loose {
			o := least(owners, of, total)
			mine[o] = append(mine[o], thing)
			total[o]++
			of[o]++
		}
		fresh := slices.Sorted(maps.Keys(came))
		for len(fresh) > 0 {
			from, to := most(owners, total, mine), least(fresh, of, total)
			if from == "" || total[from]-total[to] < 2 {
				break
			}
			last := len(mine[from]) - 1
			mine[to] = append(mine[to], mine[from][last])
			mine[from] = mine[from][:last]
			total[from]--
			total[to]++
			of[from]--
			of[to]++
		}
		for o, list := range mine {
			for _, thing := range list {
				out[thing] = o
			}
		}
	}
}

// least returns who has the fewest of a kind, and of those the fewest in all, the first of them.
func least(owners []string, of, total map[string]int) (who string) {
	for _, o := range owners {
		if who == "" || of[o] < of[who] || of[o] == of[who] && total[o] < total[who] {
			who = o
		}
	}
	return who
}

// most returns who has the most in all, of those who have something to give; "" if none has.
func most(owners []string, total map[string]int, mine map[string][]string) (who string) {
	for _, o := range owners {
		if len(mine[o]) > 0 && (who == "" || total[o] > total[who]) {
			who = o
		}
	}
	return who
}
