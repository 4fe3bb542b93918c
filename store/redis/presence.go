package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// attendance is a subscription to a channel named after the member. The server drops it when the connection
// closes, and reports the number of subscribers of a channel. All channels of a store are on one server,
// which counts only its own subscribers. The member's own channel proves that the answer came from the server
// that the member is connected to.
type attendance struct {
	store  *Store
	member string
	on     *goredis.Client
	sub    *goredis.PubSub
	server string
	heard  chan struct{}
	done   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
}

// channelName returns the name of a channel; in a Cluster, the braces put all channels on the same server.
func (s *Store) channelName(name string) string { return s.opts.Prefix + ":{nodes}:" + name }

// attendedAt returns the client of the server where members attend.
func (s *Store) attendedAt(ctx context.Context) (*goredis.Client, error) {
	server := s.servers[0]
	if g, ok := server.(*guard); ok {
		server = g.UniversalClient
	}
	switch c := server.(type) {
	case *goredis.Client:
		return c, nil
	case *goredis.ClusterClient:
		return c.MasterForKey(ctx, s.channelName(""))
	}
	return nil, fmt.Errorf("members cannot attend a %T: %w", server, errors.ErrUnsupported)
}

// Attend subscribes to the member's channel.
func (s *Store) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	on, err := s.attendedAt(ctx)
	if err != nil {
		return nil, explainRedisError(err)
	}
	a := &attendance{store: s, member: member, on: on, heard: make(chan struct{}, 1), done: make(chan struct{})}
	a.sub = on.Subscribe(ctx, s.channelName("member:"+member), s.channelName("news"))
	if err := a.awaitSubscriptions(ctx); err != nil {
		_ = a.sub.Close()
		return nil, fmt.Errorf("attend: %w", explainRedisError(err))
	}
	a.ended.Go(a.receiveAnnouncements)
	return a, nil
}

// awaitSubscriptions waits for both subscriptions, and reads the run id of the server.
func (a *attendance) awaitSubscriptions(ctx context.Context) error {
	for range 2 {
		if _, err := a.sub.Receive(ctx); err != nil {
			return err
		}
	}
	info, err := a.on.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if run, ok := strings.CutPrefix(line, "run_id:"); ok {
			a.server = strings.TrimSpace(run)
		}
	}
	if a.server == "" {
		return errAnswer
	}
	_, err = a.Absent(ctx, nil)
	return err
}

// receiveAnnouncements signals announcements until the connection breaks.
func (a *attendance) receiveAnnouncements() {
	defer close(a.done)
	defer a.sub.Close() //nolint:errcheck // it is closed
	for {
		m, err := a.sub.Receive(context.Background()) // returns when Close is called
		if err != nil {
			return
		}
		switch m.(type) {
		case *goredis.Message:
			notify.Send(a.heard)
		case *goredis.Subscription: // the client subscribed again: the subscription was lost
			return
		}
	}
}

// Absent asks for the number of subscribers of the members' channels.
func (a *attendance) Absent(ctx context.Context, members []string) (out []string, err error) {
	ctx, end, err := a.store.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	select {
	case <-a.done:
		return nil, errDetached
	default:
	}
	channels := []string{a.store.channelName("member:" + a.member)}
	for _, m := range members {
		channels = append(channels, a.store.channelName("member:"+m))
	}
	has, err := a.on.PubSubNumSub(ctx, channels...).Result()
	if err != nil {
		return nil, explainRedisError(err)
	}
	if has[channels[0]] == 0 {
		return nil, errDetached
	}
	for i, m := range members {
		if has[channels[i+1]] == 0 {
			out = append(out, m)
		}
	}
	return out, nil
}

var errDetached = errors.New("the connection that marks the node as present in the store is closed")

// Announce publishes to all members.
func (s *Store) Announce(ctx context.Context) error {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return err
	}
	defer end()
	on, err := s.attendedAt(ctx)
	if err != nil {
		return explainRedisError(err)
	}
	return explainRedisError(on.Publish(ctx, s.channelName("news"), "").Err())
}

func (a *attendance) Server() string         { return a.server }
func (a *attendance) Heard() <-chan struct{} { return a.heard }
func (a *attendance) Done() <-chan struct{}  { return a.done }

// Close ends the subscription.
func (a *attendance) Close() {
	a.once.Do(func() { _ = a.sub.Close() })
	a.ended.Wait()
}
