package timers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// otherRules are schedules by the rules of other zones than those that they name: as if the files of the
// zones had changed.
type otherRules struct {
	mu         sync.Mutex
	of, loaded map[string]string // on the disk, and as Reload has found them
	alone      bool              // the node has no others
}

func (o *otherRules) swap(of map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = of
}

func (o *otherRules) setAlone() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alone = true
}

func (o *otherRules) isAlone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.alone
}

func (o *otherRules) compile(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	by := *spec
	if zone, ok := o.loaded[spec.Timezone]; ok {
		by.Timezone = zone
	}
	for name, zone := range o.loaded {
		by.Schedule = strings.ReplaceAll(by.Schedule, "TZID="+name+":", "TZID=is "+zone+":")
	}
	by.Schedule = strings.ReplaceAll(by.Schedule, "TZID=is ", "TZID=")
	return schedule.Compile(&by, in)
}

var machineRules = sync.OnceValue(schedule.Rules)

// Rules are those of the zones that stand for others.
func (o *otherRules) Rules() map[string]string {
	all := machineRules()
	o.mu.Lock()
	defer o.mu.Unlock()
	rules := map[string]string{}
	for _, name := range evaluatedZones {
		rules[name] = all[name]
		if zone, ok := o.of[name]; ok {
			rules[name] = all[zone]
		}
	}
	return rules
}

func (o *otherRules) Reload() (changed []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range evaluatedZones {
		if o.of[name] != o.loaded[name] {
			changed = append(changed, name)
		}
	}
	o.loaded = o.of
	return changed
}

var evaluatedZones = []string{"America/Asuncion", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"}

// evaluated returns a spec with a schedule of some kind.
func evaluated(r *rand.Rand) rouse.Spec {
	zone := evaluatedZones[r.IntN(len(evaluatedZones)-1)]
	hour := r.IntN(24)
	s := rouse.Spec{Target: "x:y", Timezone: zone}
	switch r.IntN(10) {
	case 0:
		s.Schedule = fmt.Sprintf("0 %d 15 7 *", hour)
	case 1:
		s.Schedule = fmt.Sprintf("%d %d * * MON-FRI", r.IntN(60), hour)
	case 2:
		s.Schedule = "*/20 9-17 * * *"
	case 3:
		s.Schedule = fmt.Sprintf("R/P%dD", 1+r.IntN(40))
	case 4:
		s.Schedule, s.Timezone = fmt.Sprintf("@every %dm", 7+r.IntN(5000)), ""
	case 5:
		s.Schedule, s.Timezone = fmt.Sprintf("rrule:DTSTART;TZID=%s:20290101T%02d3000 RRULE:FREQ=DAILY", zone, hour), ""
	case 6:
		s.Schedule = fmt.Sprintf("aws:at(2031-%02d-15T%02d:30:00)", 2+r.IntN(10), hour)
	case 7:
		s.Schedule, s.MaxOccurrences = fmt.Sprintf("rrule:FREQ=WEEKLY;BYDAY=TU;BYHOUR=%d;BYMINUTE=0;BYSECOND=0", hour), 9
	case 8:
		s.Schedule, s.Also = fmt.Sprintf("0 %d 1 * *", hour), []string{fmt.Sprintf("15 %d * * SUN", hour)}
	case 9:
		s.Schedule, s.Timezone = "@after 90m", ""
	}
	return s
}

// TestAnEvaluationGivesEachTimerTheDueTimeOfAFreshOne: after the rules of zones have changed, each timer is
// due when one is that was made with its anchor now; those that were skipped are not due before, and stay
// paused.
func TestAnEvaluationGivesEachTimerTheDueTimeOfAFreshOne(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(365*24*60)) * time.Minute)
			time.Sleep(time.Until(start))
			rules := &otherRules{of: map[string]string{}}
			for _, name := range evaluatedZones {
				rules.of[name] = evaluatedZones[r.IntN(len(evaluatedZones))]
			}
			rules.Reload()
			ts := running(t, mem.New(), &fired{of: map[string]int{}}, Options{Compile: rules.compile})
			type kept struct {
				due, anchor rouse.Instant
				count       uint32
			}
			skipped, paused := map[string]kept{}, map[string]bool{}
			for i := range 80 {
				spec := evaluated(r)
				name := fmt.Sprintf("t%02d", i)
				if tm := made(t, ts, name, spec); tm.Due < rouse.At(time.Now()) {
					continue
				}
				key := rouse.Key{Namespace: "n", Name: name}
				switch r.IntN(6) {
				case 0:
					if _, err := ts.Pause(t.Context(), key, "", 0); err != nil {
						t.Fatal(err)
					}
					paused[name] = true
				case 1:
					if !spec.Recurring() {
						break
					}
					n := uint32(1 + r.IntN(3))
					tm, err := ts.Skip(t.Context(), key, n, "")
					if err != nil {
						t.Fatal(err)
					}
					skipped[name] = kept{tm.Due, tm.Anchor, n}
				}
			}
			rules.swap(nil)
			rules.Reload()
			job, err := evaluateAll(t, ts)
			if err != nil || job.State != rouse.JobDone || job.Failed != 0 {
				t.Fatalf("%+v, %v", job, err)
			}
			now := ts.Engine.Latest()
			err = ts.eachReadable(t.Context(), rouse.Query{Namespace: "n"}, func(tm *rouse.Timer) error {
				s, err := schedule.Compile(&tm.Spec, rouse.ScheduleInput{Key: tm.Key, Anchor: tm.Anchor})
				if err != nil {
					return err
				}
				from := now
				if !tm.Spec.Recurring() {
					from = 0
				}
				want, ok := s.Next(from)
				if was, is := skipped[tm.Key.Name]; is {
					// By the new rules some of the skipped occurrences may be over, or in the future again.
					if off := tm.Due.Sub(was.due); off > zoneShift || off < -zoneShift || tm.Due < want {
						t.Errorf("%s %q in %s was skipped to %v and is due at %v", tm.Key.Name, tm.Spec.Schedule, tm.Spec.Timezone, was.due, tm.Due)
					}
					if next, _ := s.Next(tm.Due - 1); next != tm.Due {
						t.Errorf("%s %q in %s is due at %v, which is no time of its schedule", tm.Key.Name, tm.Spec.Schedule, tm.Spec.Timezone, tm.Due)
					}
					return nil
				}
				if !ok || tm.Due != want {
					t.Errorf("%s %q in %s is due at %v, a fresh one at %v; now %v", tm.Key.Name, tm.Spec.Schedule, tm.Spec.Timezone, tm.Due, want, now)
				}
				if tm.Paused != paused[tm.Key.Name] || !tm.Paused && tm.Visible != tm.Due {
					t.Errorf("%s: paused %v, visible %v", tm.Key.Name, tm.Paused, tm.Visible)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if again, err := evaluateAll(t, ts); err != nil || again.Changed != 0 {
				t.Errorf("a second evaluation: %+v, %v", again, err)
			}
			t.Logf("seed %d: %d of %d changed, %d skipped", seed, job.Changed, job.Matched, len(skipped))
		})
	}
}

// evaluateAll writes the job of an evaluation, and returns it when it has ended.
func evaluateAll(t *testing.T, ts *Timers) (rouse.Job, error) {
	jobs := working{ts}
	j := jobs.newEvaluation(t.Context())
	tm, err := j.attentionRow(ts.Engine.Latest())
	if err != nil {
		return rouse.Job{}, err
	}
	row := tm.Row()
	_, err = ts.Engine.WriteOne(t.Context(), &engine.Write{Change: rouse.Change{Key: row.Key, If: rouse.AnyRevision, To: &row}})
	if err != nil {
		return rouse.Job{}, err
	}
	return jobs.awaitJob(t.Context(), &j)
}
