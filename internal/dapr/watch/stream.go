package watch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/notify"
)

// stream is one open WatchJobs call. The sink's mutex guards its mutable fields.
type stream struct {
	namespace string
	takes     []job.Channel
	limits    map[string]map[gateKey]int // by actor type

	ids     uint64              // the last id that was assigned
	unacked map[uint64]*trigger // all its triggers, sent or not
	unsent  []*trigger          // triggers to send, in order of their ids
	wake    chan struct{}       // there is something to send, or the stream is over
	gone    bool
	err     error // why it ended
}

// newStream reads the first message of a stream.
func newStream(initial *schedulerv1.WatchJobsRequestInitial) (*stream, error) {
	ns := initial.GetNamespace()
	st := &stream{namespace: ns, limits: limitsOf(initial), unacked: map[uint64]*trigger{}, wake: make(chan struct{}, 1)}
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
			return nil, rouse.Refuse("initial.accept_job_types", t.String(), "is an unknown job type", "give JOB, ACTOR_REMINDER, both, or none for both")
		}
		accept[t] = true
	}
	if len(accept) == 0 || accept[schedulerv1.JobTargetType_JOB_TARGET_TYPE_JOB] {
		st.takes = append(st.takes, job.Channel{Namespace: ns, Owner: initial.AppId})
	}
	for _, typ := range slices.Compact(slices.Sorted(slices.Values(initial.ActorTypes))) {
		st.takes = append(st.takes, job.Channel{Namespace: ns, Actor: true, Owner: typ})
	}
	if len(st.takes) == 0 {
		return nil, rouse.Refuse("initial.actor_types", "", "are missing, and jobs are not accepted: nothing could come", "name actor types, or accept JOB")
	}
	return st, nil
}

// ready reports whether the stream can take a trigger now.
func (st *stream) ready(o *Options) bool {
	return len(st.unsent) < o.MaxUnsent && len(st.unacked) < o.unacked()
}

// assign gives a trigger to the stream.
func (st *stream) assign(t *trigger) {
	st.ids++
	t.stream, t.id, t.sent = st, st.ids, time.Now()
	st.unacked[t.id] = t
	if st.unsent = append(st.unsent, t); len(st.unsent) == 1 {
		notify.Send(st.wake)
	}
}

// join adds a stream to its channels. The engine checks again what waited for a stream.
func (s *Sink) join(st *stream) error {
	var out []report
	defer func() { finish(out) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return rouse.ErrClosed
	case len(s.streams) >= s.opts.MaxStreams:
		s.counts.Refused++
		return tooMany(len(s.streams))
	}
	s.streams[st] = struct{}{}
	for typ, limits := range st.limits {
		s.channel(job.Channel{Namespace: st.namespace, Actor: true, Owner: typ}).limit(limits)
	}
	for _, key := range st.takes {
		c := s.channel(key)
		if len(c.streams) == 0 {
			out = s.release(c, again, out)
		}
		c.streams = append(c.streams, st)
		out = s.pump(c, out)
	}
	return nil
}

// leave removes a stream from its channels, once. Its triggers go to other streams in order, in front of the
// waiting ones.
func (s *Sink) leave(st *stream, why error) {
	var out []report
	defer func() { finish(out) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.gone {
		return
	}
	st.gone, st.err = true, why
	delete(s.streams, st)
	notify.Send(st.wake)
	had := slices.SortedFunc(maps.Values(st.unacked), func(a, b *trigger) int { return cmp.Compare(b.id, a.id) })
	st.unsent = nil
	clear(st.unacked)
	channels := map[*channel]bool{}
	for _, key := range st.takes {
		c := s.channel(key)
		channels[c] = true
		if n := slices.Index(c.streams, st); n >= 0 {
			c.streams = slices.Delete(c.streams, n, n+1)
			if c.turn > n {
				c.turn--
			}
			if c.turn >= len(c.streams) {
				c.turn = 0
			}
		}
	}
	for typ, limits := range st.limits {
		c := s.channel(job.Channel{Namespace: st.namespace, Actor: true, Owner: typ})
		channels[c] = true
		c.unlimit(limits)
	}
	for _, t := range had {
		t.stream = nil
		t.leaveGates()
		switch c := t.channel; {
		case t.dead:
			out = append(out, s.put(t, gone))
		case s.draining:
			out = append(out, s.put(t, stopping))
		default:
			if len(c.streams) == 0 {
				s.kind(c.key).Undelivered++
			}
			c.unpush(t)
		}
	}
	for c := range channels {
		out = s.pump(c, out)
		s.dropUnused(c)
	}
}

// ack processes the result of a trigger. An id that was already answered or never sent is ignored; an unknown
// status is an error that ends the stream.
func (s *Sink) ack(st *stream, r *schedulerv1.WatchJobsRequestResult) (err error) {
	now := time.Now()
	s.mu.Lock()
	t := st.unacked[r.GetId()]
	if t == nil || st.gone {
		s.mu.Unlock()
		return nil
	}
	var o rouse.Outcome
	switch r.GetStatus() {
	case schedulerv1.WatchJobsRequestResultStatus_SUCCESS:
		s.kind(t.channel.key).Done++
		o.Verdict = rouse.Done
	case schedulerv1.WatchJobsRequestResultStatus_FAILED:
		s.kind(t.channel.key).Failed++
		o = job.Failed(t.job.Job.FailurePolicy, t.fire().Attempt, now.Sub(t.sent))
	default:
		s.counts.RecvFailed++
		s.mu.Unlock()
		return rouse.Refuse("result.status", r.GetStatus().String(), "is no status", "give SUCCESS or FAILED")
	}
	s.kind(t.channel.key).Took.note(now.Sub(t.d.came))
	c := t.channel
	if n := len(st.unsent); n > 0 && st.unsent[0].id <= t.id { // answered before it was sent: a guess, but valid
		st.unsent = slices.DeleteFunc(st.unsent, func(other *trigger) bool { return other == t })
	}
	var backing [1]report
	out := append(backing[:0], s.put(t, o))
	out = s.pump(c, out)
	s.mu.Unlock()
	finish(out)
	return nil
}
