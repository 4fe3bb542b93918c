package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/timers"
)

// The checks of a node.

func (d *Doctor) checkNodeProgress(_ context.Context, r *report) {
	if err := d.Node.Healthy(); err != nil {
		r.reportCritical("see when /readyz fails", "the node does not fire: %v", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	if err := d.Timers.Degraded(); err != nil {
		r.reportCritical("look at this server and the network to it", "%v", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	r.reportOK("the node makes progress")
}

func (d *Doctor) checkStoreLatency(ctx context.Context, r *report) {
	took := time.Duration(1<<63 - 1)
	for range 3 { // the quickest counts: one may wait for a connection
		began := time.Now()
		if _, err := d.Store.Now(ctx); err != nil {
			r.reportCritical("look at the server of the store and the network to it; timers wait until it is back",
				"the store does not answer: %v", err)
			return
		}
		took = min(took, time.Since(began))
	}
	const cure = "look at the load of the store and the distance to it: each batch of fires waits so long at least"
	switch text := max(took, 10*time.Microsecond).Round(10 * time.Microsecond); {
	case took > deadStore:
		r.reportCritical(cure, "the store answers within %v", text)
	case took > slowStore:
		r.reportWarning(cure, "the store answers within %v", text)
	default:
		r.reportOK("the store answers within %v", text)
	}
}

func (d *Doctor) checkClockOffset(ctx context.Context, r *report) {
	if from := d.Timers.Clock.Back(); from != 0 {
		r.reportWarning("set the timers right: rouse clock repair",
			"the store's clock showed %v and was set back: timers that fired before wait for times after that", from)
	}
	if d.ClockSet {
		r.reportOK("the clock of the store is moved by hand")
		return
	}
	before := rouse.Reached(time.Now())
	at, err := d.Store.Now(ctx)
	if r.reportUnchecked(err) {
		return
	}
	after := rouse.Reached(time.Now())
	off := max(before.Sub(at), at.Sub(after), 0)
	const cure = "synchronize the clocks by NTP: timers follow the store's clock, tokens and certificates that of the node"
	switch {
	case off > clockFarOff:
		r.reportCritical(cure, "the clock of the node is %v away from that of the store", off)
	case off > clockOff:
		r.reportWarning(cure, "the clock of the node is %v away from that of the store", off)
	default:
		r.reportOK("the clock of the node is at most %v away from that of the store", off+after.Sub(before))
	}
}

func (d *Doctor) checkOverdueTimers(_ context.Context, r *report) {
	v := d.Timers.Violations()
	if n := v.Unclaimed + v.Stuck + v.HeldOver; n > 0 {
		r.reportCritical("see rouse explain of an overdue timer, and the log; then start the node again",
			"overdue timers make no progress: %d unclaimed, %d stuck, %d held over", v.Unclaimed, v.Stuck, v.HeldOver)
	}
	if v.Homeless > 0 {
		r.reportCritical("start a node whose claims name them, or are empty",
			"%d overdue timers are in namespaces that no live node claims", v.Homeless)
	}
	if len(r.list) == 0 {
		r.reportOK("every overdue timer makes progress, after %d looks", v.Looks)
	}
}

func (d *Doctor) checkFireLag(_ context.Context, r *report) {
	var lags rouse.Lags
	fires := uint64(0)
	for _, p := range d.Node.Stats(lagWindow) {
		lags.Merge(&p.Lags)
		fires += p.Fires
	}
	p99 := lags.Quantile(0.99)
	text := fmt.Sprintf("99 of 100 of %d fires of the last %d minutes began at most %v after they were due", fires,
		int(lagWindow.Minutes()), p99)
	const cure = "see rouse targets for slow targets and limits, and the check store"
	switch {
	case p99 > veryLateP99:
		r.reportCritical(cure, "%s", text)
	case p99 > lateP99:
		r.reportWarning(cure, "%s", text)
	case fires == 0:
		r.reportOK("nothing fired in the last %d minutes", int(lagWindow.Minutes()))
	default:
		r.reportOK("%s", text)
	}
}

func (d *Doctor) checkOpenCircuits(_ context.Context, r *report) {
	list, _ := d.Node.Targets()
	var open []string
	for i := range list {
		if list[i].Circuit != "" && list[i].Circuit != rouse.CircuitClosed {
			open = append(open, list[i].Namespace+" "+list[i].Name)
		}
	}
	if slices.Sort(open); len(open) > 0 {
		r.reportWarning("look at these hosts and addresses; their fires wait, and one is tried from time to time",
			"circuits are open: %s", joinFirst(open))
		return
	}
	r.reportOK("no circuit is open")
}

func (d *Doctor) checkCertificates(_ context.Context, r *report) {
	c := d.Certs
	if c == nil {
		r.reportOK("there are none: TLS is off")
		return
	}
	if c.Stale() {
		r.reportWarning("correct the files; the log has the reason",
			"the files of the certificate have changed, and cannot be used")
	}
	left := time.Until(c.NotAfter())
	text := fmt.Sprintf("the certificate expires at %s", c.NotAfter().UTC().Format(time.RFC3339))
	switch {
	case left < expiresNow:
		r.reportCritical("renew it now: clients and nodes refuse an expired one", "%s", text)
	case left < expiresSoon:
		r.reportWarning("renew it; new files are read within seconds", "%s", text)
	default:
		r.reportOK("%s", text)
	}
}

func (d *Doctor) sealingKeys(_ context.Context, r *report) {
	st := d.Secrets.Stats()
	if st.Unreadable > 0 {
		r.reportCritical("give this node the sealing keys of the others: see secret-keys",
			"this node cannot open %d secrets and signing keys: fires that need them wait", st.Unreadable)
		return
	}
	r.reportOK("this node can open all %d secrets and the signing keys", st.Secrets)
}

func (d *Doctor) checkListeners(_ context.Context, r *report) {
	for _, l := range []struct{ name, address string }{{"api", d.API}, {"admin", d.Admin}} {
		var missing []string
		if !d.Rule.TLS {
			missing = append(missing, "TLS")
		}
		if !d.Rule.Access {
			missing = append(missing, "access control")
		}
		if l.address != "" && !listen.OnLoopback(l.address) && len(missing) > 0 {
			r.reportWarning(insecureCure, "other machines can reach the listener %s at %s, which has no %s", l.name, l.address,
				strings.Join(missing, " and no "))
		}
	}
	if len(r.list) == 0 {
		r.reportOK("other machines reach only what has TLS and access control")
	}
}

func (d *Doctor) checkEgress(_ context.Context, r *report) {
	switch {
	case !d.AllowPrivate:
		r.reportOK("callbacks do not reach loopback and private addresses, unless egress allows them")
	case d.API == "" || listen.OnLoopback(d.API):
		r.reportOK("callbacks may reach loopback and private addresses; only this machine reaches the API")
	default:
		r.reportWarning("leave allow-private-targets out, and allow single targets by egress",
			"callbacks may reach loopback and private addresses: a client that creates timers can send requests into this network")
	}
}

func (d *Doctor) checkAuditLog(_ context.Context, r *report) {
	if d.Audit == nil {
		r.reportOK("there is no audit log")
		return
	}
	c := d.Audit.Counts()
	for to, why := range c.Failing {
		r.reportCritical("repair the destination; with audit-full refuse, calls are refused once the queue is full",
			"the audit log cannot be written to %s: %s", to, why)
	}
	if len(r.list) == 0 {
		r.reportOK("every destination takes events; %d wait", c.Queued)
	}
}

// filePermissions looks at files that have secrets.
func (d *Doctor) filePermissions(_ context.Context, r *report) {
	if runtime.GOOS == "windows" {
		r.reportOK("not looked at on this system")
		return
	}
	var open []string
	for _, f := range d.Private {
		info, err := os.Stat(f.Path)
		if f.Path == "" || err != nil || info.Mode()&fs.ModeSticky != 0 {
			continue
		}
		if info.Mode().Perm()&0o077&^f.May != 0 {
			open = append(open, fmt.Sprintf("%s (%04o)", f.Path, info.Mode().Perm()))
		}
	}
	if len(open) > 0 {
		r.reportWarning("take the rights away: chmod 700 of directories, 600 of files; and replace what may have been read",
			"other users of the machine can use %s", joinFirst(open))
		return
	}
	r.reportOK("files with secrets are closed to other users of the machine")
}

func (d *Doctor) fileDescriptors(_ context.Context, r *report) {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := own.Gather()
	if r.reportUnchecked(err) {
		return
	}
	var open, most float64
	for _, f := range families {
		switch f.GetName() {
		case "process_open_fds":
			open = f.GetMetric()[0].GetGauge().GetValue()
		case "process_max_fds":
			most = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	need := float64(d.MaxConnections + d.MaxDeliveries + spareFiles)
	const cure = "raise LimitNOFILE of the service, or lower max-connections and max-deliveries"
	switch {
	case most == 0:
		r.reportOK("not known on this system")
	case open > filesNear*most:
		r.reportCritical(cure, "%.0f of %.0f file descriptors are in use", open, most)
	case most < need:
		r.reportWarning(cure,
			"the process may have %.0f file descriptors, and the settings allow %.0f connections and deliveries", most, need)
	default:
		r.reportOK("%.0f of %.0f file descriptors are in use", open, most)
	}
}

// timeZones compares the rules of time zones of this machine with those that due times in the store were
// computed by.
func (d *Doctor) timeZones(_ context.Context, r *report) { reportZones(d.Timers.ZoneStatus(), r) }

func reportZones(z timers.ZoneStatus, r *report) {
	switch {
	case len(z.Behind) > 0:
		r.reportWarning(
			"update the time zone database of this machine (the package tzdata), or remove it: rouse has its own; within an hour, or with a restart, the timers are set right",
			"this machine has older rules than the store for %s: what this node advances is due by the older ones",
			joinFirst(z.Behind))
	case z.Known == 0:
		r.reportOK("the rules of time zones are compared soon after the start")
	case z.Changed == 0:
		r.reportOK("due times are by the rules that this machine has for %d time zones", z.Known)
	default:
		r.reportOK("due times are by the rules that this machine has for %d time zones; they changed last at %v, of %s",
			z.Known, z.Changed, joinFirst(z.Zones))
	}
}
