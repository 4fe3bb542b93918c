package sink

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCircuit is the table of the state machine: what happens in a state, and which state follows. Time goes
// on by a part of the window, a second, with each "tick".
func TestCircuit(t *testing.T) {
	opts := CircuitOptions{Share: 0.5, Deliveries: 4, Window: countParts * time.Second, Open: 2 * time.Second, MaxOpen: 4 * time.Second}.withDefaults()
	for name, steps := range map[string][]string{
		"few deliveries leave it closed":          {"fail", "fail", "fail closed"},
		"enough that fail open it":                {"fail", "fail", "fail", "fail open"},
		"half of them are enough":                 {"fail", "ok", "ok", "fail open"},
		"fewer are not":                           {"fail", "ok", "ok", "ok", "fail closed", "ok", "fail closed", "fail open"},
		"old deliveries do not count":             {"fail", "fail", "fail", "tick", "tick", "tick", "tick", "tick", "tick", "fail closed"},
		"they count to the end of the window":     {"fail", "fail", "fail", "tick", "tick", "tick", "tick", "tick", "fail open"},
		"a window without a failure ends it":      {"fail", "ok closed", "tick", "tick", "tick", "tick", "tick", "ok closed", "tick", "ok over"},
		"nothing passes while it is open":         {"fail", "fail", "fail", "fail", "tick", "ask waits"},
		"then one probe does":                     {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "ask waits", "tick", "ask waits"},
		"what began before does not matter":       {"fail", "fail", "fail", "fail", "ok open", "fail open", "tick", "tick", "ask probes", "fail half", "ok half"},
		"a probe that succeeds ends it":           {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "probe-ok over"},
		"one that fails opens it for longer":      {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "probe-fail open", "tick", "tick", "tick", "ask waits", "tick", "ask probes"},
		"but not for longer than MaxOpen":         {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "probe-fail", "tick", "tick", "tick", "tick", "ask probes", "probe-fail", "tick", "tick", "tick", "tick", "ask probes"},
		"one without evidence is followed by one": {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "release half", "ask probes"},
		"a second probe's failure is of before":   {"fail", "fail", "fail", "fail", "tick", "tick", "ask probes", "probe-fail open", "probe-fail open", "tick", "tick", "tick", "tick", "ask probes"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC)
			c := &circuit{opts: opts, touched: now}
			for i, step := range steps {
				var want string
				for j := range step {
					if step[j] == ' ' {
						step, want = step[:j], step[j+1:]
						break
					}
				}
				var got string
				over := false
				switch step {
				case "tick":
					now = now.Add(time.Second)
				case "fail", "probe-fail":
					c.recordFailure(now, step == "probe-fail")
				case "ok", "probe-ok":
					over = c.recordSuccess(now, step == "probe-ok")
				case "release":
					c.endProbe(true)
				case "ask":
					d, wait := c.decidePass(now)
					if got = [...]string{passes: "passes", probes: "probes", waits: "waits"}[d]; d == probes {
						c.probing = true
					}
					if (d == waits) != (wait > 0) {
						t.Errorf("step %d: it %s, for %v", i, got, wait)
					}
				}
				switch {
				case got != "":
				case over:
					got = "over"
				case c.opened == 0:
					got = "closed"
				case now.Before(c.until):
					got = "open"
				default:
					got = "half"
				}
				if want != "" && got != want {
					t.Fatalf("step %d, %s: %s, want %s", i, step, got, want)
				}
			}
		})
	}
}

func TestANilCircuitIsClosed(t *testing.T) {
	var c *circuit
	c.recordFailure(time.Now(), true)
	c.endProbe(true)
	if d, wait := c.decidePass(time.Now()); d != passes || wait != 0 || c.isOpen() || c.recordSuccess(time.Now(), true) {
		t.Errorf("%v, %v", d, wait)
	}
}

// A clock that is read before that of another delivery, and a pause of years, do not confuse the counts.
func TestCountsOfAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counts
		begin := time.Now()
		n.addResult(begin, time.Minute, false)
		n.addResult(begin.Add(30*time.Second), time.Minute, false)
		n.addResult(begin.Add(-time.Second), time.Minute, true)
		if ok, failed := n.sumResults(begin, time.Minute); ok != 1 || failed != 2 {
			t.Errorf("%d and %d", ok, failed)
		}
		if ok, failed := n.sumResults(begin.Add(100*365*24*time.Hour), time.Minute); ok != 0 || failed != 0 {
			t.Errorf("after years: %d and %d", ok, failed)
		}
		n = counts{}
		for range 10_000 {
			n.addResult(time.Now(), time.Minute, true)
			time.Sleep(10 * time.Millisecond)
		}
		if ok, _ := n.sumResults(time.Now(), time.Minute); ok < 5000 || ok > 6000 {
			t.Errorf("%d deliveries in a minute with 100 a second", ok)
		}
	})
}
