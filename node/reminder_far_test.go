package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/reminder/call"
	"github.com/rousehq/rouse/test/servers"
)

// disconnect ends the stream of a sidecar to an instance.
func (s *remindee) disconnect(in *instance) {
	s.mu.Lock()
	stop := s.stops[in.address]
	delete(s.stops, in.address)
	s.mu.Unlock()
	stop()
}

// TestSidecarsThatConnectWhereTheirBucketsAre: a sidecar that is connected to the instance of its bucket and
// to no other executes all of its reminders, whichever node sends them; and what waits goes where a sidecar
// comes to.
func TestSidecarsThatConnectWhereTheirBucketsAre(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	var all []*instance
	for _, name := range []string{"a", "b", "c"} {
		// What is not due soon is sent by the node that owns the timer's bucket, and not by the one that made
		// it.
		all = append(all, runReminderNode(t, url, named(name, 1000), func(c *Config) { c.Ahead = time.Second }))
	}
	var sidecars []*remindee
	for k := range 3 {
		sidecars = append(sidecars, newRemindee(t, "orderapp", fmt.Sprint("s", k), all...))
	}
	at := func(s *remindee) (address string) {
		rows := s.table().GetInstanceSync()
		instances := map[string]bool{}
		for _, row := range rows {
			instances[row.RemSerInstance] = true
			if row.SidecarInstance == s.caller.Address {
				address = row.RemSerInstance
			}
		}
		if len(rows) != 3 || len(instances) != 3 {
			return ""
		}
		return address
	}
	poll.Until(t, "each sidecar has a bucket, at an instance of its own", func() bool {
		return at(sidecars[0]) != "" && at(sidecars[1]) != "" && at(sidecars[2]) != ""
	})
	const each = 12
	for k, s := range sidecars {
		home := at(s)
		for _, in := range all {
			if in.address != home {
				s.disconnect(in)
			}
		}
		for i := range each {
			s.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("r", k, "-", i), InitialDelay: "4s"}, all...)
		}
	}
	poll.Until(t, "all are executed, by the sidecars that have them", func() bool {
		for k, s := range sidecars {
			for i := range each {
				if len(s.fires(fmt.Sprint("r", k, "-", i))) == 0 { // a node that stalls may cause a second one
					return false
				}
			}
		}
		return true
	})
	lent := uint64(0)
	for _, in := range all {
		lent += counts(in).Counts().Lent
	}
	if lent == 0 {
		t.Error("no execution was handed to another instance: the nodes happen to send all where they are executed")
	}

	// Those of an app without sidecars wait wherever they are, until one comes, to one instance. A slow
	// machine may have executed some before the sidecar leaves.
	lonely := newRemindee(t, "lonely", "x", all...)
	for i := range each {
		lonely.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("l", i), InitialDelay: "4s"}, all...)
	}
	lonely.leave()
	early := func(i int) bool { return len(lonely.fires(fmt.Sprint("l", i))) > 0 }
	poll.Until(t, "the others wait", func() bool {
		n := 0
		for i := range each {
			if early(i) {
				n++
			}
		}
		for _, in := range all {
			n += counts(in).Counts().Waiting
		}
		return n >= each
	})
	other := newRemindee(t, "lonely", "y", all[0]) // which has none of the buckets yet
	poll.Until(t, "all are executed", func() bool {
		for i := range each {
			if !early(i) && len(other.fires(fmt.Sprint("l", i))) == 0 {
				return false
			}
		}
		return true
	})
}

// TestMovesNextToAnInstanceThatHangs: an instance that hangs delays the moves of what it may be executing,
// whose calls fail with an error that names it, and of nothing else.
func TestMovesNextToAnInstanceThatHangs(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	stays := runReminderNode(t, url, named("stays", 1000), func(c *Config) { c.Lease, c.Ahead = longLease, time.Second })
	hangs := processWith(t, url, "hangs", 1000, longLease) // no other one takes over what it has
	one, two := newRemindee(t, "orderapp", "one", stays, hangs), newRemindee(t, "orderapp", "two", stays, hangs)
	var home, away *remindee // whose buckets are at the one that stays, and at the one that hangs
	poll.Until(t, "each has a bucket, at an instance of its own", func() bool {
		home, away = nil, nil
		for _, row := range one.table().GetInstanceSync() {
			s := map[string]*remindee{"one": one, "two": two}[row.SidecarInstance]
			if row.RemSerInstance == stays.address {
				home = s
			} else {
				away = s
			}
		}
		return home != nil && away != nil
	})
	var theirs []uint32
	poll.Until(t, "each node has its share of the timers", func() bool {
		nodes, err := stays.cluster.nodes(t.Context())
		for _, n := range nodes {
			if n.ID == "hangs" {
				theirs = n.Buckets
			}
		}
		return err == nil && len(nodes) == 2 && len(nodes[0].Buckets) == len(nodes[1].Buckets)
	})
	var later, often []string
	for k := range 12 {
		later = append(later, away.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("l", k), InitialDelay: "1h"}, stays, hangs))
		// So late that a slow machine has it made long before Ahead: later, the node that makes it would hold
		// it.
		often = append(often, away.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("o", k), InitialDelay: "8s", Schedule: "1s"}, stays, hangs))
	}
	poll.Until(t, "all that are due are executed", func() bool {
		for k := range often {
			if len(away.fires(fmt.Sprint("o", k))) == 0 {
				return false
			}
		}
		return true
	})
	hangs.signal(syscall.SIGSTOP)
	onward := sync.OnceFunc(func() { hangs.signal(syscall.SIGCONT) })
	defer onward()
	move := func(id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res, err := stays.SubscribeReminder(ctx, &reminderv1.SubscribeReminderRequest{ReminderList: []string{id}, Caller: home.caller})
		if err == nil && res.ReminderId[0] == "" {
			t.Errorf("%s: OK, without an id", id)
		}
		return err
	}
	var mu sync.Mutex
	var stuck []string
	var moving sync.WaitGroup
	for _, id := range slices.Concat(later, often) {
		moving.Go(func() {
			err := move(id)
			mu.Lock()
			defer mu.Unlock()
			hung := slices.Contains(often, id) && slices.Contains(theirs, rouse.BucketOf(rouse.Key{Namespace: "reminders", Name: id}, stays.cluster.buckets))
			switch {
			case !hung && err != nil:
				t.Errorf("the instance that hangs does not send %s: %v", id, err)
			case hung && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), hangs.address)):
				t.Errorf("the instance that hangs sends %s: %v", id, err)
			case hung:
				stuck = append(stuck, id)
			}
		})
	}
	moving.Wait()
	onward()
	for _, id := range stuck {
		poll.Until(t, "what could not be moved is, when the instance goes on", func() bool { return move(id) == nil })
	}
}

// counts returns what counts the executions of a node.
func counts(in *instance) interface{ Counts() call.Counts } {
	return Find[interface{ Counts() call.Counts }](in.Node)
}
