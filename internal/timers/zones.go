package timers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
)

// Due times are computed from the rules of time zones, which countries change. A note of the store has the
// rules that its due times were computed by. A node compares them with those of its machine when it starts
// and each hour, and if they have changed writes the note again, together with a job that moves the timers.
//
// Nodes on machines with different rules must not move timers to and fro. So each zone goes through each of
// its rules once: a node whose rules the note had before is behind the others. It changes nothing, reports
// that, and leaves the job to others. Timers that it advances in the meantime, by its older rules, are moved
// again when it has the others'. A node without others cannot be behind: its rules count, also if they were
// taken back.

// Zones are the rules of time zones as the machine has them now.
type Zones struct {
	// Rules returns a hash of those of each zone.
	Rules func() map[string]string
	// Reload makes Compile use them from then on, and returns the zones whose rules are others than before.
	Reload func() (changed []string)
	// Alone reports whether no other node lives that shares the store; nil: nodes never do.
	Alone func(ctx context.Context) bool
}

const (
	zonesLook = time.Hour
	// after the store did not answer, or with a job for which this node has not the rules
	zonesRetry   = time.Minute
	rulesAge     = time.Minute // how old a reading of the rules may be for a job
	maxZoneRules = 8           // of a zone that the note remembers
	// after a change of rules: for so long nodes begin the job again when they get them
	zonesUnsettled = 30 * 24 * time.Hour
)

// zonesNote is the note, as JSON.
type zonesNote struct {
	Rules   map[string]string   `json:"rules"`
	Past    map[string][]string `json:"past,omitempty"` // rules that zones had before, oldest first
	Changed rouse.Instant       `json:"changed,omitempty"`
	Zones   []string            `json:"zones,omitempty"` // that changed last
}

// zonesKey is the key of the note.
var zonesKey = rouse.Key{Namespace: rouse.ReservedNamespace, Name: "\x01zones"}

// zoneState is a node's state of the rules.
type zoneState struct {
	mu     sync.Mutex
	status ZoneStatus
	rules  map[string]string
	read   time.Time
	fresh  bool // rules were loaded since the last comparison that was done
}

// ZoneStatus is how the rules of this node's machine compare to those of the store.
type ZoneStatus struct {
	Known   int           // zones; 0: they have not been compared yet
	Behind  []string      // zones of which this machine has older rules, in order
	Changed rouse.Instant // when rules changed last; 0: never
	Zones   []string      // those that did, in order
}

// ZoneStatus returns the result of the last comparison.
func (ts *Timers) ZoneStatus() ZoneStatus {
	ts.zones.mu.Lock()
	defer ts.zones.mu.Unlock()
	return ts.zones.status
}

// Run fires timers until ctx ends, as the engine does, and keeps their due times in accordance with the rules
// of time zones.
func (ts *Timers) Run(ctx context.Context) error {
	if ts.opts.Zones.Rules == nil {
		return ts.Engine.Run(ctx)
	}
	look, stop := context.WithCancel(ctx)
	var looks sync.WaitGroup
	defer looks.Wait()
	defer stop()
	looks.Go(func() { zoning{ts}.followRules(look) })
	return ts.Engine.Run(ctx)
}

// zoning has the methods of Timers for the comparison of rules.
type zoning struct{ *Timers }

func (ts zoning) followRules(ctx context.Context) {
	if ts.Engine.Ready(ctx) != nil {
		return
	}
	for first := true; ; {
		wait := zonesLook
		if err := ts.compareRules(access.AsSystem(ctx), first); err != nil {
			wait = zonesRetry
		} else {
			first = false
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// readRules makes schedules use the machine's rules as they are now, and returns these; and whether they were
// loaded since the last comparison that was done.
func (ts zoning) readRules(age time.Duration) (rules map[string]string, fresh bool) {
	z := ts.zones
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.rules != nil && time.Since(z.read) < age {
		return z.rules, z.fresh
	}
	if len(ts.opts.Zones.Reload()) > 0 {
		z.fresh = true
		ts.schedules.Clear()
	}
	z.rules, z.read = ts.opts.Zones.Rules(), time.Now()
	return z.rules, z.fresh
}

// noteCompared notes that the rules which are loaded were compared with those of the store.
func (z *zoneState) noteCompared() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.fresh = false
}

// compareRules compares the machine's rules with those of the store, and begins a job if timers have to be
// moved. first is true for the first time since this node has started: it may have been behind before.
func (ts zoning) compareRules(ctx context.Context, first bool) error {
	mine, fresh := ts.readRules(0)
	shared := ts.opts.Zones.Alone != nil && !ts.opts.Zones.Alone(ctx)
	for b := backoff.New(firstEditPause, nextEditPause); ; {
		rows, err := ts.store.Get(ctx, []rouse.Key{zonesKey})
		if err != nil {
			return err
		}
		note := zonesNote{Rules: map[string]string{}}
		if rows[0].Revision != 0 {
			if err := json.Unmarshal(rows[0].Body, &note); err != nil {
				return fmt.Errorf("the note of the rules of time zones cannot be read: %w", err)
			}
		}
		now := ts.Engine.Latest()
		added, moved, behind := note.takeRules(mine, shared, now)
		ts.reportRules(&note, behind)
		again := shared && (first || fresh) && note.Changed != 0 && now.Sub(note.Changed) < zonesUnsettled
		moves := len(behind) == 0 && (len(moved) > 0 || again)
		if !moves && !added {
			ts.zones.noteCompared()
			return nil
		}
		w := &engine.Write{}
		if w.Change, err = ts.noteChange(ctx, &note, rows[0].Revision, moves, now); err != nil {
			return err
		}
		out, err := ts.Engine.WriteOne(ctx, w)
		switch {
		case err != nil:
			return err
		case out.Applied:
			ts.zones.noteCompared()
			return nil
		}
		if !b.Pause(ctx) {
			return ctx.Err()
		}
	}
}

// takeRules brings the note up to date with the rules of a machine. It returns whether there are zones that
// it did not have, and which zones have other rules now; and those of which the machine has rules that they
// had before: then only zones that are new to the note are added.
func (n *zonesNote) takeRules(mine map[string]string, shared bool,
	now rouse.Instant) (added bool, moved, behind []string) {
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		switch was, ok := n.Rules[name]; {
		case !ok:
			n.Rules[name], added = mine[name], true
		case was == mine[name]:
		case shared && slices.Contains(n.Past[name], mine[name]):
			behind = append(behind, name)
		default:
			moved = append(moved, name)
		}
	}
	if len(behind) > 0 || len(moved) == 0 {
		return added, nil, behind
	}
	if n.Past == nil {
		n.Past = map[string][]string{}
	}
	for _, name := range moved {
		past := slices.DeleteFunc(n.Past[name], func(was string) bool { return was == mine[name] })
		past = append(past, n.Rules[name])
		n.Past[name], n.Rules[name] = past[max(0, len(past)-maxZoneRules):], mine[name]
	}
	n.Changed, n.Zones = now, moved
	return added, moved, nil
}

// reportRules keeps the result of a comparison.
func (ts zoning) reportRules(note *zonesNote, behind []string) {
	ts.zones.mu.Lock()
	defer ts.zones.mu.Unlock()
	ts.zones.status = ZoneStatus{Known: len(note.Rules), Behind: behind, Changed: note.Changed, Zones: note.Zones}
}

// noteChange is the write of the note, with the job that moves timers if they have to be.
func (ts zoning) noteChange(ctx context.Context, note *zonesNote, revision uint64, moves bool,
	now rouse.Instant) (c rouse.Change, err error) {
	row := rouse.Row{Key: zonesKey, Bucket: rouse.BucketOf(zonesKey, ts.opts.Engine.Buckets), State: rouse.StateNote,
		Visible: rouse.Never, Due: rouse.Never}
	if row.Body, err = json.Marshal(note); err != nil {
		return c, err
	}
	c = rouse.Change{Key: zonesKey, If: revision, To: &row} // 0 is rouse.NoRow
	if !moves {
		return c, nil
	}
	j := working(ts).newEvaluation(ctx)
	j.Zones = map[string]string{}
	for name := range note.Past {
		j.Zones[name] = note.Rules[name]
	}
	// Fires that were being settled by the old rules are written by then.
	t, err := j.attentionRow(now.Add(time.Second))
	c.Also = []rouse.Row{t.Row()}
	return c, err
}

// mayEvaluate reports whether this node has the rules by which a job moves timers.
func (ts zoning) mayEvaluate(j *jobRow) bool {
	if len(j.Zones) == 0 || ts.opts.Zones.Rules == nil {
		return true
	}
	mine, _ := ts.readRules(rulesAge)
	for name, rules := range j.Zones {
		if is, ok := mine[name]; ok && is != rules {
			return false
		}
	}
	return true
}
