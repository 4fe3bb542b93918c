package actor

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/notify"
)

var (
	errMissed = status.Error(codes.Aborted,
		"moves of actors were missed: connect again, and clear the cached places of actors")
	errStopping = status.Error(codes.Unavailable, "the instance stops: connect to another one")
	errReplaced = status.Error(codes.Aborted, "the host has another stream")
	errSilent   = status.Error(codes.DeadlineExceeded, "no message from the host for three heartbeats")
	errSlow     = status.Error(codes.ResourceExhausted, "the host does not take in what it is told")
	errUnknown  = status.Error(codes.FailedPrecondition, "no such host is registered: call RegisterActorHost first")
)

// maxStreams bounds the connected hosts of an instance.
const maxStreams = 10_000

// maxTold bounds the queued messages to a host.
const maxTold = 4096

// stream is a ConnectActorHost stream. The service's mutex guards it.
type stream struct {
	life     string
	cut      context.CancelCauseFunc
	wake     chan struct{}
	out      []*reminderv1.PlacementStream
	renewed  rouse.Instant // when the host was last stored as ON
	revision uint64        // of that note
	over     bool
}

// queueMessage queues a message. The mutex is held.
func (st *stream) queueMessage(m *reminderv1.PlacementStream) {
	if len(st.out) == maxTold {
		st.cut(errSlow)
		return
	}
	st.out = append(st.out, m)
	notify.Send(st.wake)
}

// ConnectActorHost serves a host's stream.
func (f *actorServer) ConnectActorHost(wire grpc.BidiStreamingServer[reminderv1.ActorHostStream,
	reminderv1.PlacementStream]) error {
	first, err := wire.Recv()
	if err != nil {
		return err
	}
	who := hostKey{first.GetHello().GetAppId(), first.GetHello().GetAddress()}
	if err := who.checkHost("hello."); err != nil {
		return err
	}
	if err := f.requireApp(wire.Context(), who.app); err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(wire.Context())
	defer cut(nil)
	st := &stream{cut: cut, wake: make(chan struct{}, 1)}
	if err := f.joinHost(ctx, who, st); err != nil {
		return err
	}
	heard := make(chan error, 1)
	f.listens.Go(func() { heard <- f.receiveUntilSilent(wire, cut) }) // until this handler has returned
	var sending sync.WaitGroup
	sending.Go(func() { f.sendLoop(ctx, wire, st) })
	var bye bool
	select {
	case err := <-heard:
		bye = errors.Is(err, io.EOF)
	case <-ctx.Done():
	}
	why := context.Cause(ctx)
	cut(nil)
	sending.Wait()
	f.removeHostStream(context.WithoutCancel(wire.Context()), who, st, bye)
	if _, ours := status.FromError(why); why != nil && ours {
		return why
	}
	return nil
}

// joinHost adds a stream, stores that its host is ON, and queues the list of all hosts.
func (s *Service) joinHost(ctx context.Context, who hostKey, st *stream) error {
	found, err := s.notes.Get(ctx, who.noteName(hostNote), who.noteName(liveNote))
	if err != nil {
		return err
	}
	if found[0].Revision == 0 {
		with, err := status.Convert(errUnknown).WithDetails(&errdetails.ErrorInfo{Domain: "reminder",
			Reason: "NOT_REGISTERED"})
		if err != nil {
			return errUnknown
		}
		return with.Err()
	}
	var live liveBody
	if err := found[1].Read(&live); err != nil {
		return err
	}
	if st.life = live.Life; live.Life == "" || live.Until <= s.opts.Timers.Now() {
		st.life = rand.Text()
	}
	if err := s.addHostStream(who, st); err != nil {
		return err
	}
	if err := s.runHostRound(ctx); err != nil {
		s.removeHostStream(context.WithoutCancel(ctx), who, st, false)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.queueMessage(
		&reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_HostsUpdate{HostsUpdate: s.hostsOf(
			who.app)}})
	return nil
}

// addHostStream adds a stream, replacing an older one of the same host.
func (s *Service) addHostStream(who hostKey, st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.streams[who]
	switch {
	case s.closed:
		return errStopping
	case old == nil && len(s.streams) >= maxStreams:
		return rouse.ErrOverloaded
	case old != nil:
		old.cut(errReplaced)
		old.over = true
	}
	s.streams[who] = st
	return nil
}

// removeHostStream removes a stream. A host that disconnected in order is OFF at once, unless it has
// connected elsewhere.
func (s *Service) removeHostStream(ctx context.Context, who hostKey, st *stream, bye bool) {
	s.mu.Lock()
	st.over = true
	mine := s.streams[who] == st
	if mine {
		delete(s.streams, who)
	}
	revision := st.revision
	s.mu.Unlock()
	if bye && mine && revision != 0 {
		body := liveBody{who.app, who.address, s.opts.Timers.Now(), st.life}
		if _, err := s.notes.Put(ctx, note.Set(who.noteName(liveNote), &body, revision)); err != nil {
			s.opts.Log.Warn("a host that has left stays ON for three heartbeats", "app", who.app, "host", who.address,
				"error", err)
			return
		}
		s.mu.Lock()
		if h, known := s.hosts[who]; known && h.life == st.life && s.streams[who] == nil {
			h.on = false
			s.hosts[who] = h
			s.tellHosts(who.app)
		}
		s.mu.Unlock()
		s.triggerRound()
	}
}

// receiveUntilSilent receives the host's messages until the stream ends or the host is silent for too long.
func (s *Service) receiveUntilSilent(wire grpc.BidiStreamingServer[reminderv1.ActorHostStream,
	reminderv1.PlacementStream], cut context.CancelCauseFunc) error {
	silence := time.AfterFunc(silences*s.opts.Heartbeat, func() { cut(errSilent) })
	defer silence.Stop()
	for {
		if _, err := wire.Recv(); err != nil {
			return err
		}
		silence.Reset(silences * s.opts.Heartbeat)
	}
}

// sendLoop sends queued messages, and an empty one at each heartbeat, until ctx ends.
func (s *Service) sendLoop(ctx context.Context, wire grpc.BidiStreamingServer[reminderv1.ActorHostStream,
	reminderv1.PlacementStream], st *stream) {
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	empty := &reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}}
	for {
		s.mu.Lock()
		out := st.out
		st.out = nil
		s.mu.Unlock()
		for _, m := range out {
			if ctx.Err() != nil || wire.Send(m) != nil {
				return // the stream is over; Recv returns why
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-st.wake:
		case <-beat.C:
			if wire.Send(empty) != nil {
				return
			}
		}
	}
}
