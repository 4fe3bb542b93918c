// Package declare makes timers, calendars and limits as they are declared, through the API: by files, or by
// objects of Kubernetes.
//
// The timers of a Set have its owner in a label, so that sets do not touch each other's timers. A timer that
// differs is replaced, if it is as it was read; a hash in a second label reveals changes of other clients.
package declare

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// Labels of the timers of sets.
const (
	OwnerLabel   = "rouse.owner"   // the set that a timer belongs to
	AppliedLabel = "rouse.applied" // a hash of the rest of the spec: a difference is a change by another client
)

// attempts bounds how often a change of a timer that fires in the meantime is tried.
const attempts = 5

// Outcomes of declared objects.
const (
	Created   = "created"
	Changed   = "changed"
	Drifted   = "drifted" // changed by another client since it was made last; it is changed back
	Unchanged = "unchanged"
	Passed    = "passed" // its time has passed, so that it is left as it is
	Pruned    = "pruned"
	Failed    = "failed"
)

// Outcome is the outcome of an object.
type Outcome struct {
	What    string
	Changes []Change
	Err     error        // of Failed
	Timer   *rouse.Timer // as it is now, if it was read or written
}

func outcomeFailed(err error) Outcome { return Outcome{What: Failed, Err: err} }

// Set is the timers of an owner in a namespace. Once it was read, several of its methods can be called at a
// time, each for another object.
type Set struct {
	Client    *client.Client
	Namespace string
	Owner     string
	DryRun    bool          // nothing is changed, and outcomes are those of a real run
	Timeout   time.Duration // of each call

	known map[string]known // the timers of the owner, as they were when they were read
}

// known is the state that is kept of a timer: sets are large.
type known struct {
	revision uint64
	sum      string // of its spec, with the label that holds one
}

// CheckOwner refuses an invalid name of a set.
func CheckOwner(owner string) error {
	if rouse.CheckNamespace(owner) != nil {
		return rouse.Refuse("owner", owner, "is no name of a set",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	return nil
}

// Read reads the timers of the owner, and calls each with them. Without it, each timer is read when it is
// made.
func (s *Set) Read(ctx context.Context, each func(t *rouse.Timer)) error {
	s.known = map[string]known{}
	q := rouse.Query{Namespace: s.Namespace, Labels: map[string]string{OwnerLabel: s.Owner}}
	for t, err := range s.Client.List(ctx, q) {
		if err != nil {
			return err
		}
		sum, err := sumOf(&t.Spec)
		if err != nil {
			return err
		}
		s.known[t.Key.Name] = known{t.Revision, sum + t.Spec.Labels[AppliedLabel]}
		each(&t)
	}
	return nil
}

// callWithinTimeout makes one call with the timeout.
func (s *Set) callWithinTimeout(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return do(ctx)
}

// Has reports whether a timer of the owner was read, and is as it is declared.
func (s *Set) Has(o *Object) (bool, error) {
	want, err := ownedBy(s.Owner, &o.Spec)
	if err != nil {
		return false, err
	}
	k, ok := s.known[o.Name]
	return ok && k.sum == want.Labels[AppliedLabel]+want.Labels[AppliedLabel], nil
}

// Apply makes an object as it is declared.
func (s *Set) Apply(ctx context.Context, o *Object) Outcome {
	switch {
	case o.Calendar:
		return s.applyCalendar(ctx, o)
	case o.Limit != nil:
		return s.applyLimit(ctx, o)
	}
	return s.applyTimer(ctx, o)
}

func (s *Set) applyTimer(ctx context.Context, o *Object) Outcome {
	if same, err := s.Has(o); err != nil || same {
		return Outcome{What: Unchanged}.orFailed(err)
	}
	want, err := ownedBy(s.Owner, &o.Spec)
	if err != nil {
		return outcomeFailed(err)
	}
	have, err := s.fetchTimer(ctx, o.Name)
	if errors.Is(err, rouse.ErrNotFound) {
		return s.createDeclared(ctx, o, want)
	}
	if err != nil {
		return outcomeFailed(err)
	}
	if samePayload(&have.Spec, &want) {
		spec := o.Spec
		spec.Payload = have.Spec.Payload
		if want, err = ownedBy(s.Owner, &spec); err != nil {
			return outcomeFailed(err)
		}
	}
	return s.replaceChanged(ctx, o, &have, want)
}

func (o Outcome) orFailed(err error) Outcome {
	if err != nil {
		return outcomeFailed(err)
	}
	return o
}

func (s *Set) fetchTimer(ctx context.Context, name string) (t rouse.Timer, err error) {
	err = s.callWithinTimeout(ctx, func(ctx context.Context) error {
		t,
			err = s.Client.Get(ctx, s.Namespace, name)
		return err
	})
	return t, err
}

// serverNow is the server's time.
func (s *Set) serverNow() rouse.Instant { return rouse.Reached(s.Client.Now()) }

// createDeclared creates a timer that did not exist when it was read.
func (s *Set) createDeclared(ctx context.Context, o *Object, want rouse.Spec) Outcome {
	if !o.Late && o.HasPassed(s.Namespace, s.serverNow()) {
		return Outcome{What: Passed}
	}
	if s.DryRun {
		return Outcome{What: Created}.orFailed(s.mayCreate(ctx, o))
	}
	var made rouse.Timer
	err := s.callWithinTimeout(ctx, func(ctx context.Context) (err error) {
		if o.Paused != "" {
			made, err = s.createPaused(ctx, o, want)
			return err
		}
		made, err = s.Client.Create(ctx, s.Namespace, o.Name, want)
		return err
	})
	if errors.Is(err, rouse.ErrExists) {
		return outcomeFailed(fmt.Errorf("was created by another client in the meantime, and is left alone; apply again: %w",
			err))
	}
	return Outcome{What: Created, Timer: &made}.orFailed(err)
}

// mayCreate finds out, for a dry run, whether the key may create a timer paused: an import, of nothing, needs
// the same verb, which roles that may create have not.
func (s *Set) mayCreate(ctx context.Context, o *Object) error {
	if o.Paused == "" {
		return nil
	}
	return s.callWithinTimeout(ctx, func(ctx context.Context) error {
		_, err := s.Client.Import(ctx, client.CreateOnly, nil, nil)
		return err
	})
}

// createPaused creates a timer and its pause in one write, so that it does not fire between two.
func (s *Set) createPaused(ctx context.Context, o *Object, want rouse.Spec) (t rouse.Timer, err error) {
	now := s.serverNow()
	times, err := o.compileSchedule(s.Namespace, now)
	if err != nil {
		return t, err
	}
	t, err = rouse.NewTimer(rouse.Key{Namespace: s.Namespace, Name: o.Name}, want, now, now, times)
	if err == nil {
		err = t.Pause(o.Paused, 0, now)
	}
	if err != nil {
		return t, err
	}
	created, err := s.Client.Import(ctx, client.CreateOnly, []rouse.Timer{t}, nil)
	if err == nil && len(created) == 1 {
		err = created[0].Err
	}
	return t, err
}

// replaceChanged replaces a timer, if it differs. Its revision is that of its spec until a client changes it,
// or until it fires: then the change is tried again.
func (s *Set) replaceChanged(ctx context.Context, o *Object, have *rouse.Timer, want rouse.Spec) Outcome {
	old, err := fieldsOf(api.SpecOf(&have.Spec))
	if err != nil {
		return outcomeFailed(err)
	}
	wanted, err := fieldsOf(api.SpecOf(&want))
	if err != nil {
		return outcomeFailed(err)
	}
	sum, err := sumOf(&have.Spec)
	if err != nil {
		return outcomeFailed(err)
	}
	owner, was := have.Spec.Labels[OwnerLabel], have.Spec.Labels[AppliedLabel]
	changes, what := diffFields(old, wanted), Changed
	if owner == s.Owner && was != "" && was != sum {
		what = Drifted
	}
	switch {
	case owner != "" && owner != s.Owner:
		return outcomeFailed(fmt.Errorf("belongs to the set %q: remove it from this set or from that, or delete it first: %w",
			owner, rouse.ErrConflict))
	case have.Redacted:
		return outcomeFailed(fmt.Errorf("cannot be compared, because your key may not see its payload: %w",
			rouse.ErrForbidden))
	case len(changes) == 0:
		return Outcome{What: Unchanged, Timer: have}
	case o.HasPassed(s.Namespace, s.serverNow()):
		return Outcome{What: Passed, Timer: have}
	case s.DryRun:
		return Outcome{What: what, Changes: changes}
	}
	var made client.Replaced
	err = s.ifUnchanged(ctx, have, func(ctx context.Context, revision client.Condition) (err error) {
		made, err = s.Client.Replace(ctx, s.Namespace, o.Name, want, revision)
		return err
	})
	return Outcome{What: what, Changes: changes, Timer: &made.Timer}.orFailed(err)
}

// ifUnchanged writes to a timer if its spec is as it was read. A revision that is new because the timer has
// fired, or was paused, is taken; any other change is another client's.
func (s *Set) ifUnchanged(ctx context.Context, have *rouse.Timer,
	write func(ctx context.Context, revision client.Condition) error) error {
	revision := have.Revision
	for attempt := 1; ; attempt++ {
		err := s.callWithinTimeout(ctx, func(ctx context.Context) error { return write(ctx, client.IfRevision(revision)) })
		if !errors.Is(err, rouse.ErrConflict) {
			return err
		}
		now, getErr := s.fetchTimer(ctx, have.Key.Name)
		if getErr != nil || now.Generation != have.Generation || !reflect.DeepEqual(now.Spec, have.Spec) ||
			attempt == attempts {
			return fmt.Errorf("was changed by another client in the meantime, and is left alone; apply again: %w", err)
		}
		revision = now.Revision
	}
}

func (s *Set) applyCalendar(ctx context.Context, o *Object) Outcome {
	have, err := s.fetchCalendar(ctx, o.Name)
	what, changes := Created, []Change(nil)
	switch {
	case err == nil:
		what, changes = Changed, diffFields(dayFields(have.Days), dayFields(o.Days))
	case !errors.Is(err, rouse.ErrNotFound):
		return outcomeFailed(err)
	}
	return s.putIfDifferent(ctx, what, changes, func(ctx context.Context) error {
		_, err := s.Client.PutCalendar(ctx, s.Namespace, o.Name, o.Days)
		return err
	})
}

// putIfDifferent writes an object that has no owner, so that the declaration wins.
func (s *Set) putIfDifferent(ctx context.Context, what string, changes []Change,
	put func(ctx context.Context) error) Outcome {
	if what == Changed && len(changes) == 0 {
		return Outcome{What: Unchanged}
	}
	var err error
	if !s.DryRun {
		err = s.callWithinTimeout(ctx, put)
	}
	return Outcome{What: what, Changes: changes}.orFailed(err)
}

func (s *Set) applyLimit(ctx context.Context, o *Object) Outcome {
	var have rouse.Limit
	err := s.callWithinTimeout(ctx, func(ctx context.Context) (err error) {
		have, _, err = s.Client.Limits().Get(ctx, s.Namespace, o.Name)
		return err
	})
	what, changes := Created, []Change(nil)
	switch {
	case err == nil:
		what = Changed
		if changes, err = diffLimit(have, *o.Limit); err != nil {
			return outcomeFailed(err)
		}
	case !errors.Is(err, rouse.ErrNotFound):
		return outcomeFailed(err)
	}
	return s.putIfDifferent(ctx, what, changes, func(ctx context.Context) error {
		_, err := s.Client.Limits().Put(ctx, *o.Limit)
		return err
	})
}

func (s *Set) fetchCalendar(ctx context.Context, name string) (c rouse.Calendar, err error) {
	err = s.callWithinTimeout(ctx, func(ctx context.Context) error {
		c,
			err = s.Client.Calendar(ctx, s.Namespace, name)
		return err
	})
	return c, err
}

// Prune deletes a timer that is no longer declared, if it is as it was when the set was read.
func (s *Set) Prune(ctx context.Context, name string) error {
	have, err := s.fetchTimer(ctx, name)
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sum, err := sumOf(&have.Spec)
	if err != nil {
		return err
	}
	if k := s.known[name]; have.Revision != k.revision && sum+have.Spec.Labels[AppliedLabel] != k.sum {
		return fmt.Errorf("was changed by another client in the meantime, and is left alone; apply again: %w",
			rouse.ErrConflict)
	}
	return s.deleteUnchanged(ctx, &have)
}

// Remove deletes an object that is no longer declared: a timer of the owner, or a calendar that has the days
// that were declared. An object that another client has put in its place stays.
func (s *Set) Remove(ctx context.Context, o *Object) error {
	if o.Calendar {
		return s.removeCalendar(ctx, o)
	}
	have, err := s.fetchTimer(ctx, o.Name)
	switch {
	case errors.Is(err, rouse.ErrNotFound):
		return nil
	case err != nil:
		return err
	case have.Spec.Labels[OwnerLabel] != s.Owner:
		return nil
	}
	return s.deleteUnchanged(ctx, &have)
}

func (s *Set) removeCalendar(ctx context.Context, o *Object) error {
	have, err := s.fetchCalendar(ctx, o.Name)
	switch {
	case errors.Is(err, rouse.ErrNotFound):
		return nil
	case err != nil:
		return err
	case len(diffFields(dayFields(have.Days), dayFields(o.Days))) > 0:
		return nil
	}
	err = s.callWithinTimeout(ctx, func(ctx context.Context) error {
		return s.Client.DeleteCalendar(ctx,
			s.Namespace, o.Name)
	})
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Set) deleteUnchanged(ctx context.Context, have *rouse.Timer) error {
	err := s.ifUnchanged(ctx, have, func(ctx context.Context, revision client.Condition) error {
		_, err := s.Client.Delete(ctx, s.Namespace, have.Key.Name, revision)
		return err
	})
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	return err
}
