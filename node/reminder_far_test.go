package node

import (
	"fmt"
	"testing"
	"time"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
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

// TestSidecarsThatConnectWhereTheirBucketsAre: a sidecar that is connected to the instance of its bucket and to no other executes all of its
// reminders, whichever node sends them; and what waits goes where a sidecar comes to.
func TestSidecarsThatConnectWhereTheirBucketsAre(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	var all []*instance
	for _, name := range []string{"a", "b", "c"} {
		// What is not due soon is sent by the node that owns the timer's bucket, and not by the one that made it.
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
	eventually(t, "each sidecar has a bucket, at an instance of its own", func() bool {
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
	eventually(t, "all are executed, by the sidecars that have them", func() bool {
		for k, s := range sidecars {
			for i := range each {
				if len(s.fires(fmt.Sprint("r", k, "-", i))) != 1 {
					return false
				}
			}
		}
		return true
	})
	lent := uint64(0)
	for _, in := range all {
		lent += in.reminders.calls.Counts().Lent
	}
	if lent == 0 {
		t.Error("no execution was handed to another instance: the nodes happen to send all where they are executed")
	}

	// Those of an app without sidecars wait wherever they are, until one comes, to one instance.
	lonely := newRemindee(t, "lonely", "x", all...)
	for i := range each {
		lonely.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("l", i), InitialDelay: "1s"}, all...)
	}
	lonely.leave()
	eventually(t, "some wait", func() bool {
		n := 0
		for _, in := range all {
			n += in.reminders.calls.Counts().Waiting
		}
		return n == each
	})
	other := newRemindee(t, "lonely", "y", all[0]) // which has none of the buckets yet
	eventually(t, "all are executed", func() bool {
		for i := range each {
			if len(other.fires(fmt.Sprint("l", i))) != 1 {
				return false
			}
		}
		return true
	})
}
