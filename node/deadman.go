package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/timers"
)

// heartbeatTimeout bounds one request of a heartbeat.
const heartbeatTimeout = 10 * time.Second

// CanaryKey is the timer that fires through the whole path of a store's nodes while one of them has a canary.
var CanaryKey = rouse.Key{Namespace: "rouse-canary", Name: "canary"}

// canaryTarget is its target.
const canaryTarget = "canary:"

// canaryLate is after how many intervals without a fire of the canary a node sends no heartbeats.
const canaryLate = 3

// checkSigns looks at what concerns the signs of life.
func (c *Config) checkSigns() error {
	var bad rouse.Invalid
	if c.Heartbeat != "" {
		if u, err := url.Parse(c.Heartbeat); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad.Wrong("heartbeat", "is not a URL: give http://… or https://…") // its path may be a secret
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		off   bool
	}{{"heartbeat-interval", c.HeartbeatInterval, c.Heartbeat == ""}, {"canary", c.Canary, c.Canary == 0}} {
		if !d.off && (d.value < time.Second || d.value > time.Hour) {
			bad.Wrong(d.name, "is %v: give %v to %v", d.value, time.Second, time.Hour)
		}
	}
	return bad.Err()
}

// openSigns adds the signs of life of a node that others can watch: the canary and the heartbeat.
func openSigns(n *Node) {
	c := n.canary()
	if c.every > 0 {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_canary_age_seconds",
			Help: "How long ago the occurrence of the canary was due that fired last; -1 if the store does not answer."}, c.seconds))
		n.add(parts.Part{Name: "canary", Sinks: map[string]rouse.Sink{"canary": canarySink{}}, Work: c.run(n.cfg.Log)})
	}
	if n.cfg.Heartbeat == "" {
		return
	}
	h := heartbeat{every: n.cfg.HeartbeatInterval, healthy: firing(n, c), send: beat(n.cfg.Heartbeat), log: n.cfg.Log,
		count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_heartbeats_total",
			Help: "Heartbeats by result: sent, failed, or withheld because the node does not fire on time."}, []string{"result"})}
	for _, result := range []string{"sent", "failed", "withheld"} {
		h.count.WithLabelValues(result)
	}
	n.registry.MustRegister(h.count)
	n.add(parts.Part{Name: "heartbeat", Work: h.run})
}

// firing returns what tells why the node does not fire on time.
func firing(n *Node, c canary) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := cmp.Or(n.Healthy(), n.timers.Degraded()); err != nil {
			return err
		}
		if v := n.timers.Violations(); v != (engine.Violations{Looks: v.Looks, Homeless: v.Homeless}) {
			return fmt.Errorf("overdue timers make no progress: %d unclaimed, %d stuck, %d held over", v.Unclaimed, v.Stuck, v.HeldOver)
		}
		if c.every == 0 {
			return nil
		}
		age, late, err := c.lateness(ctx)
		if late {
			err = fmt.Errorf("the canary has not fired for %v", age)
		}
		return err
	}
}

// heartbeat tells a monitor outside again and again that the node fires on time. The monitor raises the alarm
// when it gets nothing, whatever the reason.
type heartbeat struct {
	every   time.Duration
	healthy func(context.Context) error
	send    func(context.Context) error
	log     *slog.Logger
	count   *prometheus.CounterVec
}

func (h *heartbeat) run(ctx context.Context) error {
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for was := ""; ; {
		result, err := "sent", h.healthy(ctx)
		if err != nil {
			result = "withheld"
		} else if err = h.send(ctx); err != nil {
			result = "failed"
		}
		if ctx.Err() != nil {
			return nil
		}
		h.count.WithLabelValues(result).Inc()
		if result != was && err != nil {
			h.log.Warn("the heartbeat was "+result, "error", err)
		} else if result != was {
			h.log.Info("heartbeats are sent")
		}
		was = result
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat returns what sends one heartbeat. Errors do not contain the URL, which may be a secret.
func beat(to string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
		if err != nil {
			return errors.New("the URL of the setting heartbeat cannot be used")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			var why *url.Error
			if errors.As(err, &why) {
				err = why.Err
			}
			return err
		}
		defer resp.Body.Close()
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("it was answered %s", resp.Status)
		}
		return nil
	}
}

// canary is a timer whose fires show that the whole path works: store, claims, engine, sink.
type canary struct {
	every  time.Duration
	store  rouse.Store
	timers func() *timers.Timers
}

func (n *Node) canary() canary {
	return canary{every: n.cfg.Canary, store: n.store, timers: func() *timers.Timers { return n.timers }}
}

// run makes the timer, or changes its interval, and then waits for the end of the node.
func (c canary) run(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for tick := time.NewTicker(c.every); ; {
			if err := c.make(ctx); err != nil && ctx.Err() == nil {
				log.Warn("the canary could not be made", "error", err)
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C: // a client may have deleted it
			}
		}
	}
}

func (c canary) make(ctx context.Context) error {
	spec := rouse.Spec{Schedule: "@every " + c.every.String(), Target: canaryTarget, Misfire: rouse.MisfireLatest}
	rows, err := c.store.Get(ctx, []rouse.Key{CanaryKey})
	if err != nil {
		return err
	}
	if rows[0].Revision != 0 {
		if t, err := rouse.DecodeTimer(&rows[0]); err == nil && t.Spec.Schedule == spec.Schedule && !t.Paused {
			return nil
		}
	}
	results, err := c.timers().Put(ctx, []timers.Put{{Key: CanaryKey, Spec: spec, Mode: timers.CreateOrReplace}})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// age returns how long ago the occurrence was due that fired last: the one before the next. It is read from
// the store, so that all nodes tell the same, and after a restart, too.
func (c canary) age(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := c.store.Get(ctx, []rouse.Key{CanaryKey})
	if err != nil {
		return 0, err
	}
	now, err := c.store.Now(ctx)
	if err != nil || rows[0].Revision == 0 { // it has just been made, or will be
		return 0, err
	}
	return max(0, now.Sub(rows[0].Due.Add(-c.every))), nil
}

// lateness returns the age, and whether no heartbeats are to be sent because of it.
func (c canary) lateness(ctx context.Context) (age time.Duration, late bool, err error) {
	age, err = c.age(ctx)
	return age, err == nil && age > canaryLate*c.every, err
}

// seconds returns the age for the metric.
func (c canary) seconds() float64 {
	age, err := c.age(context.Background())
	if err != nil {
		return -1
	}
	return age.Seconds()
}

// canarySink is the end of the canary's path.
type canarySink struct{}

// Check implements rouse.Sink.
func (canarySink) Check(spec *rouse.Spec) error {
	if spec.Target != canaryTarget {
		return rouse.Refuse("target", spec.Target, "is kept for the canary of rouse itself", "use another target")
	}
	return nil
}

// Lane implements rouse.Sink.
func (canarySink) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "canary", Limit: 16, Batch: 16}
}

// Deliver implements rouse.Sink.
func (canarySink) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
}
