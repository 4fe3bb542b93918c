package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/reminder/book"
)

// peers are the other instances.
type peers struct {
	own string

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

// maxPeers bounds the connections to other instances; beyond it they are closed to make room.
const maxPeers = 256

func (p *peers) init(own string) { p.own, p.conns = own, map[string]*grpc.ClientConn{} }

// to returns a client of another instance.
func (p *peers) to(address string) (reminderv1.InstanceServiceClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, rouse.ErrClosed
	}
	conn := p.conns[address]
	if conn == nil {
		var err error
		if conn, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
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

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for address, conn := range p.conns {
		conn.Close()
		delete(p.conns, address)
	}
}

// take takes tokens of a bucket at the instance that has it.
func (p *peers) take(ctx context.Context, row *book.Row, n int) ([]string, error) {
	peer, err := p.to(row.Instance)
	if err != nil {
		return nil, err
	}
	res, err := peer.TakeTokens(ctx, &reminderv1.TakeTokensRequest{TokenBucketId: row.ID, AppId: row.App, Count: uint32(n)})
	if err != nil {
		return nil, err
	}
	if len(res.ReminderIds) == 0 {
		return nil, fmt.Errorf("the instance %s gave no token of %s", row.Instance, row.ID)
	}
	return res.ReminderIds, nil
}

// holdAll has instances, all that live, keep from sending reminders. It returns those that are still executed somewhere; an error if an instance
// does not answer: what is not known to be held may be executed.
func (s *Service) holdAll(ctx context.Context, living []Instance, hold string, names []string) (busy map[string]bool, err error) {
	busy = map[string]bool{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, i := range living {
		asking.Go(func() {
			some, failure := s.holdAt(ctx, i.Address, hold, names)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = &rouse.RetryAfter{Err: fmt.Errorf("the instance %s cannot be asked to keep from executing them: %v: %w", i.Address, failure, rouse.ErrUnavailable),
					After: time.Second}
			}
			for _, name := range some {
				busy[name] = true
			}
		})
	}
	asking.Wait()
	return busy, err
}

func (s *Service) holdAt(ctx context.Context, address, hold string, names []string) ([]string, error) {
	if address == s.opts.Address {
		within, cancel := context.WithTimeout(ctx, moveWait)
		defer cancel()
		return s.opts.Calls.Hold(within, hold, names, holdLength)
	}
	peer, err := s.peers.to(address)
	if err != nil {
		return nil, err
	}
	res, err := peer.HoldReminders(ctx, &reminderv1.HoldRemindersRequest{Hold: hold, Names: names, Wait: durationpb.New(moveWait), Length: durationpb.New(holdLength)})
	if err != nil {
		return nil, err
	}
	return res.Busy, nil
}

// releaseWithin bounds the end of a hold; one that is not ended ends by itself.
const releaseWithin = 3 * time.Second

// releaseAll ends a hold at the instances that were asked for it, and tells them which reminders were moved.
func (s *Service) releaseAll(ctx context.Context, living []Instance, hold string, moved map[string]uint64) {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	var telling sync.WaitGroup
	for _, i := range living {
		if i.Address == s.opts.Address {
			continue
		}
		telling.Go(func() {
			peer, err := s.peers.to(i.Address)
			if err == nil {
				_, err = peer.ReleaseReminders(ctx, &reminderv1.ReleaseRemindersRequest{Hold: hold, Moved: moved})
			}
			if err != nil {
				s.failed(ctx, "end a hold at another instance", err)
			}
		})
	}
	s.opts.Calls.ReleaseHold(hold, moved)
	telling.Wait()
}
