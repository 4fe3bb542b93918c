package watch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/hub"
)

// watch is the state of a stream in the sink, one open WatchJobs call. The hub's lock guards its mutable
// fields.
type watch struct {
	namespace string
	takes     []job.Channel
	limits    map[string]map[hub.GateKey]int // by actor type

	ids     uint64              // the last id that was assigned
	unacked map[uint64]*trigger // all its triggers, sent or not
}

// actorChannel returns the channel of an actor type.
func (w *watch) actorChannel(typ string) job.Channel {
	return job.Channel{Namespace: w.namespace, Actor: true, Owner: typ}
}

// newStream reads the first message of a stream.
func newStream(initial *schedulerv1.WatchJobsRequestInitial) (*stream, error) {
	ns := initial.GetNamespace()
	st := hub.NewSub[job.Channel, watch, state](watch{namespace: ns, limits: limitsOf(initial),
		unacked: map[uint64]*trigger{}})
	w := &st.Of
	switch {
	case ns == "":
		return nil, rouse.Refuse("initial.namespace", "", "is missing", "give the namespace of the app")
	case initial.AppId == "":
		return nil, rouse.Refuse("initial.app_id", "", "is missing", "give the id of the app")
	}
	accept := map[schedulerv1.JobTargetType]bool{}
	for _, t := range initial.AcceptJobTypes {
		switch _, known := schedulerv1.JobTargetType_name[int32(t)]; {
		case accept[t]:
			return nil, rouse.Refuse("initial.accept_job_types", t.String(), "is given twice", "give it once")
		case !known:
			return nil, rouse.Refuse("initial.accept_job_types", t.String(), "is an unknown job type",
				"give JOB, ACTOR_REMINDER, both, or none for both")
		}
		accept[t] = true
	}
	if len(accept) == 0 || accept[schedulerv1.JobTargetType_JOB_TARGET_TYPE_JOB] {
		w.takes = append(w.takes, job.Channel{Namespace: ns, Owner: initial.AppId})
	}
	for _, typ := range slices.Compact(slices.Sorted(slices.Values(initial.ActorTypes))) {
		w.takes = append(w.takes, w.actorChannel(typ))
	}
	if len(w.takes) == 0 {
		return nil, rouse.Refuse("initial.actor_types", "", "are missing, and jobs are not accepted: nothing could come",
			"name actor types, or accept JOB")
	}
	return st, nil
}

// hasStreamRoom reports whether the stream can take a trigger now.
func (s *Sink) hasStreamRoom(st *stream, _ *trigger) bool {
	return st.Unsent() < s.opts.MaxUnsent && st.Held() < s.opts.maxPerStream()
}

// joinChannels adds a stream to its channels. The engine checks again the triggers that waited for a stream.
func (s *Sink) joinChannels(st *stream) error {
	s.hub.Lock()
	defer s.hub.Unlock()
	if err := s.hub.Join(st, st.Of.takes...); errors.Is(err, rouse.ErrOverloaded) {
		s.counts.Refused++
		return fmt.Errorf("%d watches are open, which is the most (setting dapr-connections): %w", s.opts.MaxStreams,
			rouse.ErrOverloaded)
	} else if err != nil {
		return err
	}
	for typ, limits := range st.Of.limits {
		s.hub.Limit(s.hub.Channel(st.Of.actorChannel(typ)), limits)
	}
	for _, key := range st.Of.takes {
		c := s.hub.Channel(key)
		if len(c.Subs) > 1 {
			continue
		}
		for t := range c.AllWaiting() {
			s.hub.Report(t, again)
		}
	}
	return nil
}

// handleResult processes the result of a trigger. An id that was already answered or never sent is ignored;
// an unknown status is an error that ends the stream.
func (s *Sink) handleResult(st *stream, r *schedulerv1.WatchJobsRequestResult) error {
	s.hub.Lock()
	defer s.hub.Unlock()
	t := st.Of.unacked[r.GetId()] // it may not have been sent: a guess, but valid
	if t == nil {
		return nil
	}
	var o rouse.Outcome
	kind := s.triggerCounts(t.Channel().Key)
	switch r.GetStatus() {
	case schedulerv1.WatchJobsRequestResultStatus_SUCCESS:
		kind.Done++
		o.Verdict = rouse.Done
	case schedulerv1.WatchJobsRequestResultStatus_FAILED:
		kind.Failed++
		o = job.Failed(t.Of.job.Job.FailurePolicy, t.Fire().Attempt, time.Since(t.Of.sent))
	default:
		return rouse.Refuse("result.status", r.GetStatus().String(), "is no status", "give SUCCESS or FAILED")
	}
	kind.Took.noteLatency(s.hub.Now() - t.Came())
	s.hub.Report(t, o)
	return nil
}
