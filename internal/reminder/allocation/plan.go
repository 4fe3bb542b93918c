package allocation

import (
	"maps"
	"slices"
)

// Situation is the leader's input to Plan.
type Situation struct {
	Book  Book
	Seats map[string]Seat

	Clients   map[string][]string // connected sidecars by app
	Prefixes  map[string]string   // by app, for the apps in Clients
	Instances []string            // live instances

	Low    map[string]bool // buckets with nearly all tokens issued
	Spent  map[string]bool // buckets with all tokens issued
	Empty  map[string]bool // buckets without tokens and without reminders
	Splits map[string]Cut  // hot buckets, whose tokens are no longer issued

	Size   int32
	Most   int           // maximum number of buckets; 0 means no bound
	Merge  int           // number of buckets from which those without tokens are merged; 0 means never
	Vector func() string // generates a vector
}

// Cut is where a bucket is split.
type Cut struct {
	At    int32 // last token that it keeps
	Given int32 // last token that may have been issued
}

// Plan returns the book and the seats for a situation, and whether they have changed.
//
// Every connected client gets a bucket with tokens; missing ones are created. A bucket whose client or
// instance is gone goes to the client and the instance with the fewest buckets, and a new client or instance
// gets its share from those with more. No other bucket moves. A bucket of an app without connected clients
// has no client.
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
	seats := s.assignSeats(&next)
	changed = changed || !maps.Equal(seats, s.Seats)
	if changed {
		next.Generation++
	}
	return next, seats, changed
}

// makeFor creates the buckets that an app's clients need: one for each client that has none with tokens and
// cannot get an existing one, from a client that is gone or, if it is new, from one that has several.
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

// assignSeats assigns every bucket to a client and an instance.
func (s *Situation) assignSeats(b *Book) map[string]Seat {
	var open, rest []string // across all apps
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
		distributeEvenly(s.Clients[app], clientOf, clients, of[0], of[1])
	}
	instances := map[string]string{}
	distributeEvenly(s.Instances, func(id string) string { return s.Seats[id].Instance }, instances, open, rest)
	seats := make(map[string]Seat, len(b.Buckets))
	for i := range b.Buckets {
		id := b.Buckets[i].ID
		seats[id] = Seat{Client: clients[id], Instance: instances[id]}
	}
	return seats
}

// distributeEvenly distributes items to owners, per kind: an item stays with its owner, an item without one
// goes to the owner with the fewest, and owners that had nothing take from those that have at least two more.
func distributeEvenly(owners []string, was func(thing string) string, out map[string]string, kinds ...[]string) {
	if len(owners) == 0 {
		return
	}
	owners = slices.Sorted(slices.Values(owners))
	total := make(map[string]int, len(owners))
	for _, o := range owners {
		total[o] = 0
	}
	came := map[string]int{} // owners that had nothing, with their current total
	for _, o := range owners {
		came[o] = 0
	}
	for _, things := range kinds {
		for _, thing := range things {
			delete(came, was(thing))
		}
	}
	slices.SortStableFunc(owners, func(a, b string) int { // existing owners first: they take nothing from others
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
		of := make(map[string]int, len(owners)) // per owner, of this kind
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
			o := leastLoaded(owners, of, total)
			mine[o] = append(mine[o], thing)
			total[o]++
			of[o]++
		}
		fresh := slices.Sorted(maps.Keys(came))
		for len(fresh) > 0 {
			from, to := mostLoaded(owners, total, mine), leastLoaded(fresh, of, total)
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

// leastLoaded returns the owner with the fewest items of a kind; among those, the one with the lowest total,
// then the first.
func leastLoaded(owners []string, of, total map[string]int) (who string) {
	for _, o := range owners {
		if who == "" || of[o] < of[who] || of[o] == of[who] && total[o] < total[who] {
			who = o
		}
	}
	return who
}

// mostLoaded returns the owner with the highest total that has an item to give; "" if none has.
func mostLoaded(owners []string, total map[string]int, mine map[string][]string) (who string) {
	for _, o := range owners {
		if len(mine[o]) > 0 && (who == "" || total[o] > total[who]) {
			who = o
		}
	}
	return who
}
