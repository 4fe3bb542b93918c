package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

// peers are the other instances.
type peers struct {
	own    string
	secure *tls.Config // nil: plain text

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

// maxPeers bounds the connections to other instances; beyond it they are closed to make room.
const maxPeers = 256

func (p *peers) init(own string, secure *tls.Config) {
	p.own, p.secure, p.conns = own, secure, map[string]*grpc.ClientConn{}
}

// peerClient returns a client of another instance, which sidecars know by an address.
func (s *Service) peerClient(ctx context.Context, address string) (reminderv1.InstanceServiceClient, error) {
	at := func(list []Instance) string {
		for _, i := range list {
			if i.Address == address {
				return cmp.Or(i.Peer, address)
			}
		}
		return ""
	}
	to := at(s.knownInstances())
	if to == "" { // it has come since the last round
		list, err := s.liveInstances(ctx)
		if err != nil {
			return nil, err
		}
		to = cmp.Or(at(list), address)
	}
	return s.peers.clientTo(to)
}

// clientTo returns a client of the instance that other instances reach at an address.
func (p *peers) clientTo(address string) (reminderv1.InstanceServiceClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, rouse.ErrClosed
	}
	conn := p.conns[address]
	if conn == nil {
		transport := insecure.NewCredentials()
		if p.secure != nil {
			transport = credentials.NewTLS(p.secure.Clone())
		}
		var err error
		if conn, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(transport),
			grpc.WithNoProxy()); err != nil {
			return nil, err
		}
		for other, old := range p.conns {
			if len(p.conns) < maxPeers {
				break
			}
			old.Close()
			delete(p.conns, other)
		}
		p.conns[address] = conn
	}
	return reminderv1.NewInstanceServiceClient(conn), nil
}

func (p *peers) closePeers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for address, conn := range p.conns {
		conn.Close()
		delete(p.conns, address)
	}
}

// takeAt takes tokens of a bucket at the instance that has it.
func (s *Service) takeAt(ctx context.Context, row *allocation.Row, n int) ([]string, error) {
	peer, err := s.peerClient(ctx, row.Instance)
	if err != nil {
		return nil, err
	}
	res, err := peer.TakeTokens(ctx, &reminderv1.TakeTokensRequest{TokenBucketId: row.ID, AppId: row.App,
		Count: uint32(n)})
	if err != nil {
		return nil, err
	}
	if len(res.ReminderIds) == 0 {
		return nil, fmt.Errorf("the instance %s gave no token of %s", row.Instance, row.ID)
	}
	return res.ReminderIds, nil
}

// lendAgain is the interval between requests to another instance for the same execution.
const lendAgain = 500 * time.Millisecond

// Lend has another instance, which has a sidecar of the app, execute a reminder: call.Options.Lend.
func (s *Service) Lend(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest,
	lost uint32) rouse.Outcome {
	var res *reminderv1.ExecuteHereResponse
	peer, err := s.peerClient(ctx, address)
	if err == nil {
		res, err = peer.ExecuteHere(ctx, &reminderv1.ExecuteHereRequest{AppId: app, Name: timer, Request: r, Lost: lost})
	}
	switch {
	case err != nil:
		return rouse.Outcome{Verdict: rouse.Deferred, After: lendAgain,
			Detail: rouse.Shorten("the instance "+address+" could not be asked: "+err.Error(), rouse.MaxDetail)}
	case !res.Ended:
		return rouse.Outcome{Verdict: rouse.Deferred, After: lendAgain, Detail: rouse.Shorten(res.Detail, rouse.MaxDetail)}
	case res.Success:
		return rouse.Outcome{Verdict: rouse.Done, Detail: rouse.Shorten(res.Detail, rouse.MaxDetail)}
	}
	return rouse.Outcome{Verdict: rouse.Failed, Lost: res.Lost, Detail: rouse.Shorten(res.Detail, rouse.MaxDetail)}
}

// recallLength is how long an instance holds the executions that it has to return. It is short because
// nothing ends that hold.
const recallLength = 100 * time.Millisecond

// Recall has another instance return executions that it has not sent yet: call.Options.Recall. Without an
// answer they are waited for.
func (s *Service) Recall(ctx context.Context, address string, timers []string) {
	peer, err := s.peerClient(ctx, address)
	if err == nil {
		_, err = peer.HoldReminders(ctx, &reminderv1.HoldRemindersRequest{Hold: rand.Text(), Names: timers,
			Length: durationpb.New(recallLength)})
	}
	if err != nil {
		s.logFailure(ctx, "recall executions from another instance", err)
	}
}

// holdAll makes instances hold reminders, so that they do not send them, and returns the ones that are still
// executing. All instances have to answer: a reminder that is not held may be executed. Also with an error,
// held is the instances that have answered: the caller has to end the hold there.
func (s *Service) holdAll(ctx context.Context, at []string, hold string,
	names []string) (busy map[string]bool, held []string, err error) {
	type answer struct {
		from string
		busy []string
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, holdWithin)
	defer cancel()
	answers := make(chan answer, len(at))
	for _, address := range at {
		go func() {
			busy, err := s.holdAt(ctx, address, hold, names)
			answers <- answer{address, busy, err}
		}()
	}
	busy = map[string]bool{}
	for range at { // after the first error the others are only waited for
		a := <-answers
		if a.err != nil {
			if err == nil {
				err = &rouse.RetryAfter{Err: fmt.Errorf(
					"the instance %s may be executing them, and cannot be asked to stop: %v: %w",
					a.from, a.err, rouse.ErrUnavailable), After: time.Second}
			}
			cancel()
			continue
		}
		held = append(held, a.from)
		for _, name := range a.busy {
			busy[name] = true
		}
	}
	return busy, held, err
}

func (s *Service) holdAt(ctx context.Context, address, hold string, names []string) ([]string, error) {
	if address == s.opts.Address {
		within, cancel := context.WithTimeout(ctx, moveWait)
		defer cancel()
		return s.opts.Calls.Hold(within, hold, names, holdLength)
	}
	peer, err := s.peerClient(ctx, address)
	if err != nil {
		return nil, err
	}
	res, err := peer.HoldReminders(ctx, &reminderv1.HoldRemindersRequest{Hold: hold, Names: names,
		Wait: durationpb.New(moveWait), Length: durationpb.New(holdLength)})
	if err != nil {
		return nil, err
	}
	return res.Busy, nil
}

// releaseWithin bounds the request to end a hold; otherwise the hold expires.
const releaseWithin = 3 * time.Second

// releaseAll ends a hold at this instance and at those that have answered, and reports to them which
// reminders were moved. An instance that did not answer, and receives the hold later, ends it by itself,
// because the caller is gone.
func (s *Service) releaseAll(ctx context.Context, held []string, hold string, moved map[string]uint64) {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	var telling sync.WaitGroup
	for _, address := range held {
		if address == s.opts.Address {
			continue
		}
		telling.Go(func() {
			peer, err := s.peerClient(ctx, address)
			if err == nil {
				_, err = peer.ReleaseReminders(ctx, &reminderv1.ReleaseRemindersRequest{Hold: hold, Moved: moved})
			}
			if err != nil {
				s.logFailure(ctx, "end a hold at another instance", err)
			}
		})
	}
	s.opts.Calls.ReleaseHold(hold, moved)
	telling.Wait()
}
