package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/kubelink"
)

// reconcileObject makes the timer or calendar that an object declares, and writes its status. An error means
// that it is tried again.
func (c *Controller) reconcileObject(ctx context.Context, k key) error {
	o := c.findObject(k)
	if o == nil {
		return nil
	}
	if o.Metadata.DeletionTimestamp != nil {
		return c.removeDeclared(ctx, k, o)
	}
	if !o.hasFinalizer() {
		var err error
		if o, err = c.setFinalizers(ctx, k, o, append(slices.Clone(o.Metadata.Finalizers), finalizer)); err != nil {
			return err
		}
	}
	namespace := c.o.Prefix + k.namespace
	d, err := parseDeclared(k, o, namespace, rouse.Reached(c.o.Client.Now()))
	var out declare.Outcome
	switch {
	case err != nil:
		out = declare.Outcome{What: declare.Failed, Err: err}
	default:
		out = c.ownedTimers(namespace).Apply(ctx, d)
	}
	c.observeOutcome(k, &out)
	if out.Err == nil && d.Calendar && out.What != declare.Unchanged {
		c.retryIn(k.namespace)
	}
	next, err := c.nextStatus(ctx, o, namespace, &out)
	if err == nil {
		err = c.writeStatus(ctx, k, o, next)
	}
	if reason, _ := outcomeReason(&out); reason == reasonUnavailable {
		err = errors.Join(out.Err, err)
	}
	return err
}

// observeOutcome counts and logs an outcome that changed something or failed.
func (c *Controller) observeOutcome(k key, out *declare.Outcome) {
	c.metrics.outcomes.WithLabelValues(k.kind, out.What).Inc()
	if reason, _ := outcomeReason(out); reason == reasonUnavailable {
		c.metrics.failures.WithLabelValues("rouse").Inc()
	}
	switch out.What {
	case declare.Unchanged, declare.Passed:
	case declare.Failed:
		c.o.Log.Debug("an object could not be made", "kind", k.kind, "namespace", k.namespace, "name", k.name,
			"error", out.Err)
	default:
		fields := make([]string, len(out.Changes))
		for i, change := range out.Changes {
			fields[i] = change.Field
		}
		c.o.Log.Info(out.What, "kind", k.kind, "namespace", k.namespace, "name", k.name, "fields", fields)
	}
}

// retryIn has the objects of a namespace looked at that rouse does not have: they may need the calendar that
// has changed.
func (c *Controller) retryIn(namespace string) {
	for _, one := range c.caches {
		for _, k := range one.sortedKeys() {
			if o := one.getObject(k); k.namespace == namespace && o != nil &&
				o.Status.readyReason(o.Metadata.Generation) == reasonInvalid {
				c.enqueueChanged(k, false)
			}
		}
	}
}

// parseDeclared returns the timer or calendar that an object declares: its spec is that of the API without
// the name.
func parseDeclared(k key, o *object, namespace string, now rouse.Instant) (*declare.Object, error) {
	d := &declare.Object{Name: k.name, Calendar: k.kind == "calendar"}
	if rouse.CheckNamespace(namespace) != nil {
		return d, rouse.Refuse("metadata.namespace", k.namespace, "is too long for a namespace of rouse with the prefix",
			"use another namespace, or a shorter --prefix")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(o.Spec, &members); err != nil || members == nil {
		return d, rouse.Refuse("spec", "", "is missing", "give a spec")
	}
	members["name"], _ = json.Marshal(k.name)
	if d.Calendar && members["days"] == nil {
		members["days"] = jsontext.Value("[]")
	}
	value, err := json.Marshal(members)
	if err != nil {
		return d, err
	}
	return d, d.Parse(value, namespace, now)
}

// inObject names the fields of an error as the object has them.
func inObject(bad *rouse.Invalid) error {
	named := &rouse.Invalid{}
	for _, p := range bad.Problems {
		switch {
		case p.Field == "name" || p.Field == "namespace":
			p.Field = "metadata." + p.Field
		case p.Field != "spec" && !strings.HasPrefix(p.Field, "metadata."):
			p.Field = "spec." + p.Field
		}
		named.Problems = append(named.Problems, p)
	}
	return named
}

// outcomeReason returns the reason and the message for an outcome.
func outcomeReason(out *declare.Outcome) (reason, message string) {
	var bad *rouse.Invalid
	switch err := out.Err; {
	case err == nil && out.What == declare.Passed:
		return reasonEnded, "its time has passed: nothing is created or changed"
	case err == nil:
		return reasonApplied, ""
	case errors.As(err, &bad):
		return reasonInvalid, inObject(bad).Error()
	case errors.Is(err, rouse.ErrConflict), errors.Is(err, rouse.ErrExists):
		reason = reasonConflict
	case errors.Is(err, rouse.ErrForbidden), errors.Is(err, rouse.ErrUnauthenticated):
		reason = reasonForbidden
	default:
		reason = reasonUnavailable
	}
	return reason, out.Err.Error()
}

// nextStatus returns the status of an object after an outcome.
func (c *Controller) nextStatus(ctx context.Context, o *object, namespace string,
	out *declare.Outcome) (*status, error) {
	reason, message := outcomeReason(out)
	was, generation := &o.Status, o.Metadata.Generation
	next := *was
	next.ObservedGeneration, next.Namespace = generation, &namespace
	if reason == reasonUnavailable && was.readyReason(generation) != "" {
		return &next, nil // a server that is away for a moment changes no status of thousands
	}
	next.Conditions = newConditions(was.Conditions, generation, reason, message, time.Now())
	switch t := out.Timer; {
	case t != nil:
		next.NextFire, next.State = textOf(t.Due), textOf(t.State())
		if t.Due == rouse.Never || t.Over() {
			next.NextFire = nil
		}
		if was.Ended != nil && *was.Ended == t.Ended || t.Ended == 0 {
			return &next, nil
		}
		next.Ended = &t.Ended
	case out.What == declare.Passed && (was.State == nil || *was.State != "ended"):
		ended := "ended"
		next.NextFire, next.State = nil, &ended
	default:
		return &next, nil
	}
	var err error
	if next.LastFire, err = c.readLastFire(ctx, namespace, o.Metadata.Name); err != nil {
		return nil, err
	}
	return &next, nil
}

// textOf returns the text of a value.
func textOf(v fmt.Stringer) *string {
	text := v.String()
	return &text
}

// readLastFire returns how the last occurrence of a timer ended, nil if there is no record of any.
func (c *Controller) readLastFire(ctx context.Context, namespace, name string) (*lastFire, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	list, err := c.o.Client.Outcomes(ctx, namespace, []string{name}, 1)
	if err != nil || len(list) == 0 || len(list[0].Records) == 0 {
		return nil, err
	}
	r := &list[0].Records[0]
	l := &lastFire{Due: r.Due.String(), Ended: r.Ended.String(), Ending: r.Ending.String()}
	if r.Cause != 0 {
		l.Cause = textOf(r.Cause)
	}
	return l, nil
}

// removeDeclared deletes the timer or calendar of an object that is being deleted, and then removes the
// finalizer.
func (c *Controller) removeDeclared(ctx context.Context, k key, o *object) error {
	if !o.hasFinalizer() {
		return nil // it waits for the finalizer of another program
	}
	namespace := c.o.Prefix + k.namespace
	d, err := parseDeclared(k, o, namespace, rouse.Reached(c.o.Client.Now()))
	if err == nil || !d.Calendar && rouse.CheckNamespace(namespace) == nil { // the timer may be of an earlier spec
		err = c.ownedTimers(namespace).Remove(ctx, d)
	} else {
		err = nil // there is none
	}
	if err != nil {
		out := declare.Outcome{What: declare.Failed, Err: err}
		c.observeOutcome(k, &out)
		next, nextErr := c.nextStatus(ctx, o, namespace, &out)
		if nextErr == nil {
			nextErr = c.writeStatus(ctx, k, o, next)
		}
		return errors.Join(err, nextErr)
	}
	c.metrics.outcomes.WithLabelValues(k.kind, declare.Pruned).Inc()
	c.o.Log.Info("deleted with its object", "kind", k.kind, "namespace", k.namespace, "name", k.name)
	_, err = c.setFinalizers(ctx, k, o, slices.DeleteFunc(slices.Clone(o.Metadata.Finalizers),
		func(f string) bool { return f == finalizer }))
	if kubelink.IsStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// setFinalizers sets the finalizers of an object, unless it has changed.
func (c *Controller) setFinalizers(ctx context.Context, k key, o *object, finalizers []string) (*object, error) {
	return c.patchObject(ctx, k, "", map[string]any{"metadata": map[string]any{"finalizers": finalizers,
		"resourceVersion": o.Metadata.ResourceVersion}})
}

// writeStatus writes the status of an object, if it differs.
func (c *Controller) writeStatus(ctx context.Context, k key, o *object, next *status) error {
	if next.equalsStatus(&o.Status) {
		return nil
	}
	_, err := c.patchObject(ctx, k, "/status", map[string]any{"status": next,
		"metadata": map[string]any{"uid": o.Metadata.UID}})
	if kubelink.IsStatus(err, http.StatusNotFound) {
		return nil // it is gone
	}
	return err
}

// patchObject changes an object by a merge patch, and returns it.
func (c *Controller) patchObject(ctx context.Context, k key, subresource string, body any) (*object, error) {
	ctx, cancel := context.WithTimeout(ctx, kubelink.CallTimeout)
	defer cancel()
	plural := kinds[slices.IndexFunc(kinds, func(one kind) bool { return one.name == k.kind })].plural
	at := c.o.Link.Collection(Group+"/"+Version, k.namespace, plural) + "/" + k.name + subresource
	o := &object{}
	err := c.o.Link.Do(ctx, http.MethodPatch, at, "application/merge-patch+json", body, o)
	if err != nil {
		c.metrics.failures.WithLabelValues("kubernetes").Inc()
	}
	return o, err
}
