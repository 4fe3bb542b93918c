package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
)

// The checks of the store and of all nodes together.

func (d *Doctor) checkCluster(ctx context.Context, r *report) {
	s, ok := d.Store.(rouse.Diagnosed)
	if !ok {
		r.reportOK("the store does not tell")
		return
	}
	list, err := s.Diagnose(ctx)
	if !r.reportUnchecked(err) {
		r.list = list
	}
}

func (d *Doctor) checkLeases(ctx context.Context, r *report) {
	list, err := d.Node.Members(ctx)
	if r.reportUnchecked(err) {
		return
	}
	if list == nil {
		r.reportOK("one node has the store to itself")
		return
	}
	var ids, leaders []string
	for i := range list {
		if ids = append(ids, list[i].ID); list[i].Leader {
			leaders = append(leaders, list[i].ID)
		}
	}
	if len(leaders) == 0 {
		r.reportWarning("see RouseNoLeader: timers fire, but nothing is counted and trimmed", "no node leads")
		return
	}
	r.reportOK("%d nodes have a lease: %s; %s leads", len(ids), joinFirst(ids), leaders[0])
}

func (d *Doctor) checkVersions(ctx context.Context, r *report) {
	list, err := d.Node.Members(ctx)
	if r.reportUnchecked(err) {
		return
	}
	versions, strategies := map[string][]string{}, map[string][]string{}
	for i := range list {
		p := parts.PublishedBy(list[i].Data)
		versions[p.Version] = append(versions[p.Version], list[i].ID)
		strategies[p.Strategy] = append(strategies[p.Strategy], list[i].ID)
	}
	for _, of := range []struct {
		what, cure string
		nodes      map[string][]string
	}{{"versions", "finish the rolling deploy", versions},
		{"strategies", "give all nodes the same strategy", strategies}} {
		if len(of.nodes) > 1 {
			var each []string
			for value, ids := range of.nodes {
				each = append(each, fmt.Sprintf("%s on %s", value, joinFirst(ids)))
			}
			slices.Sort(each)
			r.reportWarning(of.cure, "nodes have different %s: %s", of.what, strings.Join(each, "; "))
		}
	}
	if len(r.list) == 0 {
		r.reportOK("every node has the version %s and the strategy %s", d.Version, d.Strategy)
	}
}

func (d *Doctor) checkBuckets(ctx context.Context, r *report) {
	list, err := d.Node.Buckets(ctx)
	if r.reportUnchecked(err) {
		return
	}
	free := 0
	for i := range list {
		if list[i].Node == "" {
			free++
		}
	}
	switch {
	case free > 0:
		r.reportCritical("start a node with the role scheduler; after a start or a death this lasts for a lease at most",
			"no node has %d of %d buckets: their timers wait", free, len(list))
	case len(list) == 0:
		r.reportOK("the nodes do not share buckets")
	default:
		r.reportOK("each of %d buckets has a node", len(list))
	}
}

func (d *Doctor) checkCanary(ctx context.Context, r *report) {
	if d.Canary == 0 {
		r.reportOK("there is none")
		return
	}
	age, late, err := d.Node.CanaryAge(ctx)
	if r.reportUnchecked(err) {
		return
	}
	if late {
		r.reportCritical("see rouse explain canary --namespace rouse-canary", "the canary has not fired for %v",
			age.Round(time.Second))
		return
	}
	r.reportOK("the canary fired %v ago", age.Round(time.Second))
}

func (d *Doctor) deadLetters(ctx context.Context, r *report) {
	kept, err := d.Store.Count(ctx, rouse.Query{States: []rouse.State{rouse.StateDead}})
	if r.reportUnchecked(err) {
		return
	}
	page, err := d.Timers.Records(ctx, rouse.RecordQuery{Endings: []rouse.Ending{rouse.EndDead}, Limit: deadRead,
		From: rouse.RecordCursor{Ended: d.Timers.Now().Add(-deadWindow)}})
	if r.reportUnchecked(err) {
		return
	}
	if n := len(page.Records); n > 0 {
		more := ""
		if n == deadRead {
			more = "at least "
		}
		last := &page.Records[0]
		r.reportWarning(
			"see rouse fires --ending dead; repair the target, then redrive with rouse dead redrive, or with --with-current-spec what was replaced", "%s%d fires ran out of attempts in the last hour, the last one of %s %s (%s); %d dead letters are kept", more, n, last.Namespace, last.Name, last.Cause, kept)
		return
	}
	r.reportOK("no fire ran out of attempts in the last hour; %d dead letters are kept", kept)
}

// checkExpectations finds timers that have not succeeded in time.
func (d *Doctor) checkExpectations(ctx context.Context, r *report) {
	overdue := rouse.Query{States: []rouse.State{rouse.StateOverdue}, Limit: maxNames}
	n, err := d.Store.Count(ctx, overdue)
	if r.reportUnchecked(err) {
		return
	}
	if n == 0 {
		r.reportOK("no timer is overdue by its expect")
		return
	}
	page, err := d.Store.List(ctx, overdue)
	if r.reportUnchecked(err) {
		return
	}
	var list []string
	for i := range page.Rows {
		list = append(list, page.Rows[i].Key.Namespace+"/"+page.Rows[i].Key.Name)
	}
	more := ""
	if rest := n - int64(len(list)); rest > 0 {
		more = fmt.Sprintf(" and %d more", rest)
	}
	r.reportWarning(
		"see why with rouse explain, and all with rouse list --state overdue; the next success of a timer ends it",
		"%d timers have not succeeded in time: %s%s", n, strings.Join(list, ", "), more)
}

// checkJobs finds jobs that make no progress.
func (d *Doctor) checkJobs(ctx context.Context, r *report) {
	list, err := d.Timers.Jobs(ctx, rouse.Everywhere)
	if r.reportUnchecked(err) {
		return
	}
	now, err := d.Store.Now(ctx)
	if r.reportUnchecked(err) {
		return
	}
	running := 0
	for i := range list {
		j := &list[i]
		if j.State != rouse.JobRunning {
			continue
		}
		if running++; now.Sub(j.Updated) > jobStill {
			r.reportWarning(
				"see it with rouse jobs get, and the log for why its pages fail; a bulk change ends with rouse jobs cancel",
				"the job %s of namespace %s has made no progress since %v", j.ID, j.Namespace, j.Updated)
		}
	}
	if len(r.list) == 0 {
		r.reportOK("%d jobs are running, and make progress", running)
	}
}

func (d *Doctor) checkPaused(ctx context.Context, r *report) {
	paused, err := d.Store.Count(ctx, rouse.Query{States: []rouse.State{rouse.StatePaused}})
	if r.reportUnchecked(err) {
		return
	}
	if paused == 0 {
		r.reportOK("no timer is paused")
		return
	}
	list, err := d.Quotas.List(ctx, rouse.NamespaceQuery{Limit: namespacesRead, All: true})
	if r.reportUnchecked(err) {
		return
	}
	var whole []string
	for i := range list {
		count := func(states ...rouse.State) (n int64) {
			if err == nil {
				n, err = d.Store.Count(ctx, rouse.Query{Namespace: list[i].Name, States: states})
			}
			return n
		}
		if count(rouse.StatePaused) > 0 && count(rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted) == 0 {
			whole = append(whole, list[i].Name)
		}
	}
	page, failed := d.Store.List(ctx, rouse.Query{States: []rouse.State{rouse.StatePaused}, Limit: pausedRead})
	var themselves []string
	for i := range page.Rows {
		if t, err := d.Timers.Read(&page.Rows[i]); err == nil && t.PauseCause != rouse.PauseRequested {
			themselves = append(themselves, fmt.Sprintf("%s/%s (%s)", t.Key.Namespace, t.Key.Name, t.PauseCause))
		}
	}
	switch {
	case r.reportUnchecked(cmp.Or(err, failed)):
	case len(themselves) > 0:
		r.reportWarning(
			"see why with rouse explain; cure that, replace or reschedule them, and resume them with rouse resume",
			"timers paused themselves: %s", joinFirst(themselves))
	case len(whole) > 0:
		r.reportWarning("resume them with rouse resume, unless that is intended", "every timer is paused in %s",
			joinFirst(whole))
	default:
		r.reportOK("%d timers are paused, and no namespace as a whole", paused)
	}
}

func (d *Doctor) checkQuotas(_ context.Context, r *report) {
	set := 0
	var near []string
	d.Quotas.Each(func(namespace string, quotas []rouse.Quota) {
		for i := range quotas {
			q := &quotas[i]
			if q.Limit == 0 {
				continue
			}
			if set++; q.Measured && q.Used >= quotaNear*q.Limit {
				near = append(near, fmt.Sprintf("%s of %s (%s of %s)", q.Name, namespace, q.Text(q.Used), q.Text(q.Limit)))
			}
		}
	})
	if len(near) > 0 {
		r.reportWarning("raise them with rouse namespace put, or talk to the tenant: beyond a quota requests are refused",
			"quotas are nearly used up: %s", joinFirst(near))
		return
	}
	r.reportOK("none of %d quotas is nearly used up", set)
}

func (d *Doctor) checkAPIKeys(ctx context.Context, r *report) {
	if d.Access == nil {
		r.reportOK("there are none: access control is off")
		return
	}
	list, _, err := d.Access.Keys.List(ctx, "", "", keysRead)
	if r.reportUnchecked(err) {
		return
	}
	soon := 0
	for i := range list {
		if left := time.Until(list[i].Expires); !list[i].Expires.IsZero() && left > 0 && left < expiresSoon {
			soon++
		}
	}
	if soon > 0 { // their names are for callers that may list keys
		r.reportWarning(
			"see rouse key list; make new ones with rouse key create, and give them to the programs that use these",
			"%d of %d API keys expire within %d days", soon, len(list), int(expiresSoon.Hours())/24)
		return
	}
	r.reportOK("none of %d API keys expires within %d days", len(list), int(expiresSoon.Hours())/24)
}
