package matrix

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// begin is a Friday.
var begin = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// receivers by name. What they do depends on the occurrence and the attempt only, so that a run can be
// repeated.
var receivers = []struct {
	name string
	receiver
}{
	{"prompt", func(*rouse.Fire) (time.Duration, rouse.Verdict) { return 5 * time.Millisecond, rouse.Done }},
	{"slow", func(f *rouse.Fire) (time.Duration, rouse.Verdict) {
		if int64(f.Due)/10_000%3 == 0 {
			return 14 * time.Second, rouse.Done // longer than an interval
		}
		return 100 * time.Millisecond, rouse.Done
	}},
	{"failing", func(f *rouse.Fire) (time.Duration, rouse.Verdict) {
		switch int64(f.Due) / 10_000 % 4 {
		case 0:
			return time.Second, rouse.Failed // until it is dead
		case 1:
			return 0, rouse.Rejected
		case 2:
			if f.Attempt < attempts {
				return 3 * time.Second, rouse.Failed
			}
		}
		return 0, rouse.Done
	}},
}

// disturbances by name, each a minute or two long.
var disturbances = []struct {
	name string
	play func(w *simulation, names []string)
}{
	{"nothing", func(w *simulation, names []string) { time.Sleep(time.Minute) }},
	{"pause", func(w *simulation, names []string) {
		each(names, func(n string) { w.pause(n, 0) })
		time.Sleep(34 * time.Second)
		each(names, w.resume)
		time.Sleep(30 * time.Second)
	}},
	{"pause until", func(w *simulation, names []string) {
		each(names, func(n string) { w.pause(n, 34*time.Second) })
		time.Sleep(time.Minute)
	}},
	{"pause over outage", func(w *simulation, names []string) {
		each(names, func(n string) { w.pause(n, 34*time.Second) })
		time.Sleep(15 * time.Second)
		restart := w.stop(false)
		time.Sleep(40 * time.Second)
		restart()
		time.Sleep(30 * time.Second)
	}},
	{"restart", func(w *simulation, names []string) {
		for range 5 {
			w.stop(false)()
			time.Sleep(11 * time.Second)
		}
	}},
	{"crash", func(w *simulation, names []string) {
		for range 5 {
			restart := w.stop(true)
			time.Sleep(time.Second)
			restart()
			time.Sleep(12 * time.Second)
		}
	}},
	{"outage", func(w *simulation, names []string) {
		restart := w.stop(false)
		time.Sleep(47 * time.Second)
		restart()
		time.Sleep(30 * time.Second)
	}},
	{"long outage", func(w *simulation, names []string) {
		restart := w.stop(false)
		time.Sleep(130 * time.Second)
		restart()
		time.Sleep(30 * time.Second)
	}},
	{"clock", func(w *simulation, names []string) {
		w.cfg.ClockErr, w.cfg.MinBackoff = 2500*time.Millisecond, 0 // waits are by the store's clock
		for _, step := range []time.Duration{1500, -1500, -1200, 2000, -800} {
			w.skew.Add(int64(step * time.Millisecond))
			time.Sleep(12300 * time.Millisecond)
		}
	}},
	{"skip and run", func(w *simulation, names []string) {
		each(names, func(n string) { w.skip(n, 2) })
		time.Sleep(15 * time.Second)
		each(names, w.run)
		time.Sleep(27 * time.Second)
		each(names, w.run)
		each(names, func(n string) { w.skip(n, 1) })
		time.Sleep(20 * time.Second)
	}},
	{"backfill", func(w *simulation, names []string) {
		time.Sleep(31 * time.Second)
		each(names, func(n string) { w.backfill(n, 50*time.Second, 25*time.Second) })
		time.Sleep(20 * time.Second)
		w.redrive()
		time.Sleep(20 * time.Second)
	}},
}

func each(names []string, do func(string)) {
	for _, n := range names {
		do(n)
	}
}

// TestMatrix runs every combination for a few minutes of virtual time.
func TestMatrix(t *testing.T) {
	musts, cells := 0, 0
	for _, p := range combinations() {
		for _, r := range receivers {
			for _, d := range disturbances {
				name := fmt.Sprintf("%v/%s/%s", p, r.name, d.name)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newSimulation(begin, r.receiver)
						names := w.timers(p)
						time.Sleep(33 * time.Second)
						d.play(w, names)
						time.Sleep(70 * time.Second)
						report, log := w.finish()
						cells, musts = cells+1, musts+report.Stats.Musts
						if list := w.complaints(report, log, name); len(list) > 0 {
							t.Errorf("%d complaints:\n%s", len(list), strings.Join(list[:min(len(list), 12)], "\n"))
						}
					})
				})
			}
		}
	}
	if musts < 30*cells {
		t.Errorf("only %d occurrences had to arrive in %d cells: they prove little", musts, cells)
	}
}

// timers creates timers of each kind with these policies.
func (w *simulation) timers(p policies) (names []string) {
	now := w.clock()
	for _, timer := range []struct {
		name string
		timerSpec
	}{
		{"every", p.every(10 * time.Second)},
		{"cron", p.cron("cron6:*/20 * * * * *", "", "")},
		{"jitter", p.every(10 * time.Second).jitter(4 * time.Second)},
		{"deadline", p.every(10 * time.Second).deadline(6 * time.Second)},
		{"count", p.every(7 * time.Second).count(9)},
		{"span", p.every(10*time.Second).between(now.Add(25*time.Second), now.Add(95*time.Second))},
		{"once", p.at(now.Add(40 * time.Second))},
		{"late once", p.at(now.Add(70 * time.Second)).deadline(20 * time.Second)},
	} {
		if w.create(timer.name, timer.timerSpec) {
			names = append(names, timer.name)
		}
	}
	return names
}

// TestClockChange crosses a gap and a repeated hour of a time zone under each rule, with the engine up and
// down.
func TestClockChange(t *testing.T) {
	changes := map[string]time.Time{
		"gap":    time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC),
		"repeat": time.Date(2027, 10, 31, 1, 0, 0, 0, time.UTC),
	}
	musts := 0
	for _, p := range combinations() {
		for change, at := range changes {
			for _, outage := range []bool{false, true} {
				name := fmt.Sprintf("%v/%s/outage=%v", p, change, outage)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newSimulation(at.Add(-70*time.Minute), receivers[0].receiver)
						for _, gap := range []string{"next", "shift", "skip"} {
							for _, repeat := range []string{"first", "second", "both"} {
								dst := gap + "," + repeat
								w.create("fixed "+dst, p.cron("5,35 1,2,3 * * *", "Europe/Berlin", dst))
								w.create("wild "+dst, p.cron("*/20 * * * *", "Europe/Berlin", dst))
							}
						}
						w.create("except", p.cron("*/20 * * * *", "Europe/Berlin", "").except(at.Format(time.DateOnly)))
						time.Sleep(40 * time.Minute)
						if outage {
							restart := w.stop(false)
							time.Sleep(50 * time.Minute)
							restart()
						}
						time.Sleep(90 * time.Minute)
						report, log := w.finish()
						musts += report.Stats.Musts
						if list := w.complaints(report, log, "change/"+name); len(list) > 0 {
							t.Errorf("%d complaints:\n%s", len(list), strings.Join(list[:min(len(list), 12)], "\n"))
						}
					})
				})
			}
		}
	}
	if musts < 1000 {
		t.Errorf("only %d occurrences had to arrive", musts)
	}
}
