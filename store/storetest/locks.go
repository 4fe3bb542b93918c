package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// short is the duration of leases whose end the tests wait for.
const short = 80 * time.Millisecond

// takeLeases takes or renews leases.
func (m *sharedBench) takeLeases(owner string, ttl time.Duration, wants ...rouse.Want) []rouse.Lease {
	m.Helper()
	got, err := m.shared.Lock(m.Context(), owner, ttl, wants)
	if err != nil {
		m.Fatal(err)
	}
	if len(got) != len(wants) {
		m.Fatalf("%d leases for %d wants", len(got), len(wants))
	}
	for i := range got {
		if got[i].Name != wants[i].Name {
			m.Fatalf("lease %d is %q, %q was wanted", i, got[i].Name, wants[i].Name)
		}
	}
	return got
}

func (m *sharedBench) unlockLeases(owner string, names ...string) {
	m.Helper()
	if err := m.shared.Unlock(m.Context(), owner, names); err != nil {
		m.Fatal(err)
	}
}

func (m *sharedBench) listLeases(prefix string) []rouse.Lease {
	m.Helper()
	got, _, err := m.shared.Leases(m.Context(), prefix)
	if err != nil {
		m.Fatal(err)
	}
	return got
}

// checkLease compares a lease with the expected one, except for its end.
func (m *sharedBench) checkLease(what string, got rouse.Lease, owner string, epoch uint64, data string) {
	m.Helper()
	if got.Owner != owner || got.Epoch != epoch || string(got.Data) != data {
		m.Errorf("%s: %s is %q's with epoch %d and data %q, want %q's with epoch %d and data %q",
			what, got.Name, got.Owner, got.Epoch, got.Data, owner, epoch, data)
	}
}

func newWant(name, data string) rouse.Want { return rouse.Want{Name: name, Data: []byte(data)} }

func wantIf(name string, epoch uint64, data string) rouse.Want {
	return rouse.Want{Name: name, Data: []byte(data), If: epoch}
}

// locks contains the cases about Lock, Unlock and Leases.
var locks = []sharedSentence{
	{"a lease without an owner is taken, until the store's now plus ttl", func(m *sharedBench) {
		before := m.storeTime()
		l := m.takeLeases("a", time.Minute, newWant("x", "of a"))[0]
		after := m.storeTime()
		if l.Epoch == 0 {
			m.Error("its epoch is 0")
		}
		m.checkLease("taken", l, "a", l.Epoch, "of a")
		if l.Until < before.Add(time.Minute) || l.Until > after.Add(time.Minute)+1 {
			m.Errorf("it ends at %v, taken between %v and %v for a minute", l.Until, before, after)
		}
		if got := m.listLeases("x"); len(got) != 1 || got[0].Until != l.Until {
			m.Errorf("leases are %+v, it is %+v", got, l)
		}
	}},
	{"its owner renews it: a new end and new data, the same epoch", func(m *sharedBench) {
		first := m.takeLeases("a", time.Minute, newWant("x", "one"))[0]
		second := m.takeLeases("a", time.Hour, newWant("x", "two"))[0]
		m.checkLease("renewed", second, "a", first.Epoch, "two")
		if second.Until < first.Until.Add(58*time.Minute) {
			m.Errorf("it ended at %v, and ends at %v", first.Until, second.Until)
		}
		third := m.takeLeases("a", time.Minute, rouse.Want{Name: "x"})[0]
		m.checkLease("renewed", third, "a", first.Epoch, "")
		if third.Until >= second.Until {
			m.Errorf("renewed for less, it ends at %v, before at %v", third.Until, second.Until)
		}
	}},
	{"another owner is refused, and shown who has it", func(m *sharedBench) {
		first := m.takeLeases("a", time.Hour, newWant("x", "of a"))[0]
		got := m.takeLeases("b", time.Minute, newWant("x", "of b"))[0]
		m.checkLease("refused", got, "a", first.Epoch, "of a")
		if got.Until != first.Until {
			m.Errorf("it ends at %v, it was taken until %v", got.Until, first.Until)
		}
		m.checkLease("listed", m.listLeases("x")[0], "a", first.Epoch, "of a")
	}},
	{"a lease that has ended can be taken by any owner, with a greater epoch", func(m *sharedBench) {
		first := m.takeLeases("a", short, newWant("x", "one"))[0]
		m.waitUntil(first.Until)
		second := m.takeLeases("b", time.Hour, newWant("x", "two"))[0]
		if second.Epoch <= first.Epoch {
			m.Errorf("epoch %d after %d", second.Epoch, first.Epoch)
		}
		m.checkLease("taken", second, "b", second.Epoch, "two")
		m.checkLease("the former owner", m.takeLeases("a", time.Hour, newWant("x", ""))[0], "b", second.Epoch, "two")
		first = m.takeLeases("b", short, newWant("y", "one"))[0]
		m.waitUntil(first.Until)
		second = m.takeLeases("b", time.Hour, newWant("y", "two"))[0]
		if second.Epoch <= first.Epoch {
			m.Errorf("taken again by its last owner after its end: epoch %d after %d", second.Epoch, first.Epoch)
		}
	}},
	{"a lease that is renewed in time does not end", func(m *sharedBench) {
		first := m.takeLeases("a", 10*short, newWant("x", ""))[0]
		l := m.takeLeases("a", time.Hour, newWant("x", ""))[0]
		m.waitUntil(first.Until)
		m.checkLease("another owner", m.takeLeases("b", time.Hour, newWant("x", ""))[0], "a", l.Epoch, "")
	}},
	{"Unlock ends a lease of the owner's; its epoch stays, and grows when it is taken", func(m *sharedBench) {
		first := m.takeLeases("a", time.Hour, newWant("x", ""), newWant("y", ""), newWant("z", ""))
		m.unlockLeases("a", "y", "x", "never taken")
		list, now, err := m.shared.Leases(m.Context(), "")
		if err != nil {
			m.Fatal(err)
		}
		for i, l := range list {
			if l.Epoch != first[i].Epoch || (l.Until > now) != (i == 2) {
				m.Errorf("at %v %s ends at %v with epoch %d, it had %d", now, l.Name, l.Until, l.Epoch, first[i].Epoch)
			}
		}
		got := m.takeLeases("b", time.Hour, newWant("x", ""), newWant("z", ""))
		if got[0].Owner != "b" || got[0].Epoch <= first[0].Epoch || got[1].Owner != "a" {
			m.Errorf("another owner has %+v after %+v", got, first)
		}
		if got := m.takeLeases("a", time.Hour, newWant("y", "")); got[0].Owner != "a" || got[0].Epoch <= first[1].Epoch {
			m.Errorf("its last owner has %+v after %+v", got, first[1])
		}
		m.unlockLeases("a")
	}},
	{"leases that have ended are deleted if they are as they were read", func(m *sharedBench) {
		locks, ok := m.shared.(rouse.LeaseDropper)
		if !ok {
			return
		}
		ended := m.takeLeases("a", short, newWant("ended", ""), newWant("taken", ""))
		m.waitUntil(ended[1].Until)
		live := m.takeLeases("a", time.Hour, newWant("live", ""))[0]
		taken := m.takeLeases("b", short, newWant("taken", ""))[0]
		m.waitUntil(taken.Until)
		drop := []rouse.Lease{ended[0], ended[1], live, {Name: "none", Epoch: 1}}
		if err := locks.DropLeases(m.Context(), drop); err != nil {
			m.Fatal(err)
		}
		var left []string
		for _, l := range m.listLeases("") {
			left = append(left, l.Name)
		}
		if !slices.Equal(left, []string{"live", "taken"}) {
			m.Errorf("left are %q", left)
		}
		m.checkLease("taken after it was deleted", m.takeLeases("b", time.Hour, newWant("ended", "of b"))[0], "b", 1, "of b")
		if err := locks.DropLeases(m.Context(), nil); err != nil {
			m.Error(err)
		}
	}},
	{"leases are ended if they are as they were read", func(m *sharedBench) {
		locks, ok := m.shared.(rouse.LeaseEnder)
		if !ok {
			return
		}
		old := m.takeLeases("a", time.Hour, newWant("outlived", "of a"), newWant("renewed", ""), newWant("again", ""),
			newWant("taken", ""))
		ended := m.takeLeases("c", short, newWant("ended", ""))[0]
		m.waitUntil(ended.Until)
		is := m.takeLeases("a", 2*time.Hour, newWant("renewed", ""))
		m.unlockLeases("a", "again", "taken")
		is = append(is, m.takeLeases("a", time.Hour, newWant("again", ""))...)
		is = append(is, m.takeLeases("b", time.Hour, newWant("taken", ""))...)
		if err := locks.EndLeases(m.Context(), append(old, ended, rouse.Lease{Name: "none", Epoch: 1})); err != nil {
			m.Fatal(err)
		}
		list, now, err := m.shared.Leases(m.Context(), "")
		if err != nil {
			m.Fatal(err)
		}
		for _, l := range list {
			switch i := slices.IndexFunc(is, func(o rouse.Lease) bool { return o.Name == l.Name }); {
			case i >= 0 && (l.Until != is[i].Until || l.Owner != is[i].Owner || l.Epoch != is[i].Epoch):
				m.Errorf("%+v was ended, it was %+v", l, is[i])
			case i < 0 && (l.Until > now || l.Name == "ended" && l.Until != ended.Until):
				m.Errorf("at %v there is %+v", now, l)
			}
		}
		if len(list) != 5 {
			m.Errorf("%d leases", len(list))
		}
		m.checkLease("taken after it was ended", m.takeLeases("b", time.Hour, newWant("outlived", ""))[0], "b",
			old[0].Epoch+1, "")
		if err := locks.EndLeases(m.Context(), nil); err != nil {
			m.Error(err)
		}
	}},
	{"Unlock by another than its owner does nothing", func(m *sharedBench) {
		first := m.takeLeases("a", time.Hour, newWant("x", ""))[0]
		m.unlockLeases("b", "x")
		if got := m.listLeases("x")[0]; got.Until != first.Until || got.Owner != "a" {
			m.Errorf("it is %+v, was %+v", got, first)
		}
		ended := m.takeLeases("c", short, newWant("y", ""))[0]
		m.waitUntil(ended.Until)
		second := m.takeLeases("d", time.Hour, newWant("y", ""))[0]
		m.unlockLeases("c", "y")
		if got := m.listLeases("y")[0]; got.Until != second.Until || got.Owner != "d" {
			m.Errorf("its former owner ended it: %+v, was %+v", got, second)
		}
	}},
	{"an optimistic lock takes a lease from any owner, if its epoch is that one", func(m *sharedBench) {
		first := m.takeLeases("a", time.Hour, newWant("clock", "1"))[0]
		second := m.takeLeases("b", time.Hour, wantIf("clock", first.Epoch, "2"))[0]
		m.checkLease("another owner's", second, "b", first.Epoch+1, "2")
		third := m.takeLeases("b", time.Hour, wantIf("clock", second.Epoch, "3"))[0]
		m.checkLease("its own", third, "b", second.Epoch+1, "3")
		for _, epoch := range []uint64{first.Epoch, second.Epoch, third.Epoch + 1, 1<<63 - 1} {
			got := m.takeLeases("a", time.Hour, wantIf("clock", epoch, "no"))[0]
			m.checkLease(fmt.Sprintf("if its epoch is %d", epoch), got, "b", third.Epoch, "3")
		}
		m.checkLease("listed", m.listLeases("clock")[0], "b", third.Epoch, "3")

		ended := m.takeLeases("a", short, newWant("ended", "1"))[0]
		m.waitUntil(ended.Until)
		m.checkLease("ended", m.takeLeases("b", time.Hour, wantIf("ended", ended.Epoch, "2"))[0], "b", ended.Epoch+1, "2")
	}},
	{"an optimistic lock of a name that is not there takes nothing", func(m *sharedBench) {
		l := m.takeLeases("a", time.Hour, wantIf("x", 1, "one"))[0]
		if l.Epoch == 2 || l.Owner == "a" {
			m.Errorf("it is taken: %+v", l)
		}
		l = m.takeLeases("b", time.Hour, newWant("x", "two"))[0]
		m.checkLease("taken after", l, "b", l.Epoch, "two")
	}},
	{"several leases are asked for at once, each on its own", func(m *sharedBench) {
		b := m.takeLeases("b", time.Hour, newWant("3", "b"), newWant("7", "b"))
		wants := make([]rouse.Want, 10)
		for i := range wants {
			wants[i] = newWant(fmt.Sprint(9-i), "a")
		}
		wants[2].If = b[1].Epoch     // 7: taken from b
		wants[4].If = b[1].Epoch + 9 // 5: does not exist
		for i, l := range m.takeLeases("a", time.Hour, wants...) {
			if taken := i != 4 && i != 6; (l.Owner == "a") != taken {
				m.Errorf("%s is %q's", l.Name, l.Owner)
			}
		}
		if got := m.takeLeases("a", time.Hour); len(got) != 0 {
			m.Errorf("no wants: %+v", got)
		}
	}},
	{"a lease keeps the data of its owner", func(m *sharedBench) {
		every := make([]byte, 0, 20_000)
		for i := range cap(every) {
			every = append(every, byte(i))
		}
		for i, data := range [][]byte{every, {0}, {0xff, 0xfe}, []byte("{\"å\": \"🕰\"}"), {}, nil} {
			w := rouse.Want{Name: "x", Data: data}
			if l := m.takeLeases("a", time.Hour, w)[0]; !bytes.Equal(l.Data, data) {
				m.Errorf("%d: %d bytes became %d", i, len(data), len(l.Data))
			}
			if l := m.listLeases("x")[0]; !bytes.Equal(l.Data, data) {
				m.Errorf("%d: of %d bytes there are listed %d", i, len(data), len(l.Data))
			}
		}
	}},
	{"leases are listed by prefix, in the order of names, ended ones too", func(m *sharedBench) {
		names := []string{"node/B", "node/a", "node/a%c", "node/a_c", "node/abc", "node/b", "node/Ä", "nodeless", "x[y]",
			"x\\y", "x*", "x?", "xy"}
		ended := m.takeLeases("a", short, newWant("node/a", ""))[0]
		for i, name := range names {
			if name != "node/a" {
				m.takeLeases([]string{"a", "b"}[i%2], time.Hour, newWant(name, ""))
			}
		}
		m.waitUntil(ended.Until)
		slices.Sort(names)
		for _, prefix := range []string{"", "node/", "node/a", "node/a_", "node/a%", "node/Ä", "x[", "x\\", "x*", "x?",
			"%", "y"} {
			var with []string
			for _, n := range names {
				if len(n) >= len(prefix) && n[:len(prefix)] == prefix {
					with = append(with, n)
				}
			}
			var got []string
			for _, l := range m.listLeases(prefix) {
				got = append(got, l.Name)
			}
			if !slices.Equal(got, with) {
				m.Errorf("of %q: %q, want %q", prefix, got, with)
			}
		}
		list, now, err := m.shared.Leases(m.Context(), "node/a")
		if err != nil {
			m.Fatal(err)
		}
		m.checkLease("ended", list[0], "a", ended.Epoch, "")
		if list[0].Until > now || list[0].Until != ended.Until {
			m.Errorf("it ends at %v, now is %v, it was to end at %v", list[0].Until, now, ended.Until)
		}
		if d := m.storeTime().Sub(now); d < 0 || d > time.Minute {
			m.Errorf("now was %v, %v before the store's clock", now, d)
		}
	}},
	{"of all that want a lease at a time exactly one gets it", func(m *sharedBench) {
		const owners, names = 8, 5
		var wg sync.WaitGroup
		got := make([][]rouse.Lease, owners)
		for n := range owners {
			wg.Go(func() {
				wants := make([]rouse.Want, names)
				for i := range wants {
					wants[i] = newWant(fmt.Sprint("x", (i*(1+n%2*3)+n)%names), fmt.Sprint("of ", n)) // orders differ
				}
				var err error
				if got[n], err = m.shared.Lock(m.Context(), fmt.Sprint("owner", n), time.Hour, wants); err != nil {
					m.Error(err)
				}
			})
		}
		wg.Wait()
		if m.Failed() {
			return
		}
		has := map[string]int{}
		for n, leases := range got {
			for _, l := range leases {
				if l.Owner == fmt.Sprint("owner", n) {
					has[l.Name]++
				}
			}
		}
		list := m.listLeases("x")
		for _, l := range list {
			if has[l.Name] != 1 || string(l.Data) != "of "+l.Owner[len("owner"):] {
				m.Errorf("%s was taken by %d, and is %q's with data %q", l.Name, has[l.Name], l.Owner, l.Data)
			}
		}
		if len(list) != names {
			m.Errorf("%d leases", len(list))
		}
	}},
	{"of all that advance an epoch at a time exactly one does", func(m *sharedBench) {
		first := m.takeLeases("first", time.Hour, newWant("clock", "0"))[0]
		const owners, rounds = 6, 15
		var wg sync.WaitGroup
		var won atomic.Uint64
		for n := range owners {
			wg.Go(func() {
				owner, epoch := fmt.Sprint("owner", n), first.Epoch
				for range rounds {
					l, err := m.shared.Lock(m.Context(), owner, time.Hour,
						[]rouse.Want{wantIf("clock", epoch, fmt.Sprint(epoch+1-first.Epoch))})
					if err != nil {
						m.Error(err)
						return
					}
					if l[0].Epoch <= epoch {
						m.Errorf("epoch %d after %d", l[0].Epoch, epoch)
					}
					if l[0].Owner == owner && l[0].Epoch == epoch+1 {
						won.Add(1)
					}
					epoch = l[0].Epoch
				}
			})
		}
		wg.Wait()
		l := m.listLeases("clock")[0]
		if advances := l.Epoch - first.Epoch; advances != won.Load() || string(l.Data) != fmt.Sprint(advances) {
			m.Errorf("the epoch was advanced %d times, its value is %q, %d owners think that they did", advances, l.Data,
				won.Load())
		}
	}},
	{"epochs never go back, whatever is done to a lease", func(m *sharedBench) {
		const owners = 5
		var wg sync.WaitGroup
		for n := range owners {
			wg.Go(func() {
				owner := fmt.Sprint("owner", n)
				var last rouse.Lease
				for i := range 30 {
					w := newWant("x", owner)
					if i%7 == 3 {
						w.If = last.Epoch
					}
					l, err := m.shared.Lock(m.Context(), owner, []time.Duration{time.Millisecond, time.Hour}[i%2], []rouse.Want{w})
					if err != nil {
						m.Error(err)
						return
					}
					if l[0].Epoch < last.Epoch || l[0].Epoch == last.Epoch && last.Epoch > 0 && l[0].Owner != last.Owner {
						m.Errorf("%+v after %+v", l[0], last)
					}
					last = l[0]
					if err := m.shared.Unlock(m.Context(), owner, []string{"x"}); err != nil {
						m.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}},
	{"a call about leases whose context has ended fails, and so does one to a closed store", func(m *sharedBench) {
		fails := func(ctx context.Context, what string) {
			if _, err := m.shared.Lock(ctx, "a", time.Hour, []rouse.Want{newWant("x", "")}); err == nil {
				m.Errorf("lock: %s", what)
			}
			if err := m.shared.Unlock(ctx, "a", []string{"x"}); err == nil {
				m.Errorf("unlock: %s", what)
			}
			if _, _, err := m.shared.Leases(ctx, ""); err == nil {
				m.Errorf("leases: %s", what)
			}
			if _, err := m.shared.Revisions(ctx, []rouse.Key{dueRow("a", 0).Key}); err == nil {
				m.Errorf("revisions: %s", what)
			}
		}
		ctx, cancel := context.WithCancel(m.Context())
		cancel()
		fails(ctx, "an ended context")
		if got := m.listLeases(""); len(got) != 0 {
			m.Errorf("an ended context took %+v", got)
		}
		if err := m.Store.Close(); err != nil {
			m.Fatal(err)
		}
		fails(m.Context(), "a closed store")
	}},
}
