package scheduler

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// Interval and timeout of reading the list of members.
const (
	hostsEvery  = time.Second
	hostsWithin = 5 * time.Second
)

// hosts publishes the addresses of the members to WatchHosts streams.
type hosts struct {
	opts *Options

	mu      sync.Mutex
	own     string
	list    []string // sorted; nil: not known yet
	changed chan struct{}
}

func (h *hosts) init(o *Options) { h.opts, h.own, h.changed = o, o.Address, make(chan struct{}) }

// setSelf uses the listener's address as this server's own, unless one is set.
func (h *hosts) setSelf(a net.Addr) {
	h.mu.Lock()
	if h.own == "" {
		h.own = a.String()
	}
	own := h.own
	h.mu.Unlock()
	if h.opts.Hosts == nil {
		h.setHostList([]string{own})
	}
}

// refreshHosts reads the list until ctx ends. If that fails, the previous list stays.
func (h *hosts) refreshHosts(ctx context.Context) {
	if h.opts.Hosts == nil {
		return
	}
	tick := time.NewTicker(hostsEvery)
	defer tick.Stop()
	silent := false
	for {
		asking, cancel := context.WithTimeout(ctx, hostsWithin)
		list, err := h.opts.Hosts(asking)
		cancel()
		switch {
		case err == nil:
			h.setHostList(list)
		case ctx.Err() == nil && !silent:
			h.opts.Log.Warn("cannot tell Dapr's sidecars which members there are; they keep to what they know", "err", err)
		}
		silent = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// setHostList sets the list, to which it adds this server.
func (h *hosts) setHostList(list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list = slices.Clone(list)
	if !slices.Contains(list, h.own) {
		list = append(list, h.own)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if slices.Equal(list, h.list) {
		return
	}
	h.list = list
	h.opts.Watch.Share(slices.Index(list, h.own), len(list))
	close(h.changed)
	h.changed = make(chan struct{})
}

// currentHosts returns the members and a channel that is closed when they change.
func (h *hosts) currentHosts() ([]string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list, h.changed
}

// WatchHosts sends the addresses of all members once they are known, and again whenever they change.
func (f *service) WatchHosts(_ *schedulerv1.WatchHostsRequest,
	stream grpc.ServerStreamingServer[schedulerv1.WatchHostsResponse]) error {
	for {
		list, changed := f.hosts.currentHosts()
		if list != nil {
			m := &schedulerv1.WatchHostsResponse{}
			for _, address := range list {
				m.Hosts = append(m.Hosts, &schedulerv1.Host{Address: address})
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-f.draining.Done():
			return rouse.ErrClosed
		}
	}
}
