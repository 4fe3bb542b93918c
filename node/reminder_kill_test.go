//go:build unix

package node

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestReminderProcess is the process that other tests kill.
func TestReminderProcess(t *testing.T) {
	var store, name string
	var size int
	if _, err := fmt.Sscan(os.Getenv("ROUSE_TEST_REMINDER_PROCESS"), &store, &name, &size); err != nil {
		t.Skip("for other tests")
	}
	lease, err := time.ParseDuration(os.Getenv("ROUSE_TEST_REMINDER_LEASE"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, WithAPI("127.0.0.1:0"), func(c *Config) {
		if lease == longLease {
			c.Ahead = time.Second // what is not due soon is sent by the node that owns its bucket, and not by the one that made it
		}
		c.Reminders, c.Lease, c.ReminderHeartbeat, c.Unsafe, c.Node, c.ReminderBucketSize = true, lease, 2*time.Second, true, name, size
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserves " + n.Addr())
	t.Error(n.Run(context.Background()))
}

// anywhere makes a reminder at the instance that the table names for the sidecar, or at any other that has
// become right.
func anywhere(t *testing.T, s *remindee, r *reminderv1.Reminder, living func() []*instance) string {
	var last error
	for until := time.Now().Add(poll.Patience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		table := s.table()
		for _, in := range living() {
			if !slices.ContainsFunc(table.GetInstanceSync(), func(row *reminderv1.TokenBucketInstanceSync) bool {
				return row.SidecarInstance == s.caller.Address && row.RemSerInstance == in.address
			}) {
				continue
			}
			within, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it may hang
			res, err := in.CreateReminder(within, &reminderv1.CreateReminderRequest{Reminder: r, Caller: s.caller})
			cancel()
			if err == nil {
				return res.ReminderId
			}
			last = err
		}
	}
	t.Errorf("no instance makes a reminder: %v", last)
	return ""
}

// process starts an instance as a process of its own, which end kills.
func process(t *testing.T, store, name string, size int) *instance {
	t.Helper()
	return processWith(t, store, name, size, 2*time.Second)
}

// longLease is a lease that does not end in a test.
const longLease = time.Minute

// processWith starts one with a lease of its own.
func processWith(t *testing.T, store, name string, size int, lease time.Duration) *instance {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReminderProcess$")
	cmd.Env = append(os.Environ(), "ROUSE_TEST_REMINDER_LEASE="+lease.String(), fmt.Sprint("ROUSE_TEST_REMINDER_PROCESS=", store, " ", name, " ", size))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "serves "); ok {
			in.address = addr
			break
		}
	}
	in.signal = func(sig os.Signal) {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		for lines.Scan() {
		}
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	if in.address == "" {
		kill()
		t.Fatal("the process does not serve")
	}
	conn, err := grpc.NewClient(in.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	in.ReminderServiceClient = reminderv1.NewReminderServiceClient(conn)
	in.end = sync.OnceFunc(func() {
		kill()
		conn.Close()
	})
	t.Cleanup(in.end)
	return in
}

// TestRemindersOutliveKilledInstances creates reminders while instances and sidecars are killed: no id is
// assigned twice, and every acknowledged reminder is executed.
func TestRemindersOutliveKilledInstances(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	stays, killed := runReminderNode(t, url, named("stays", 1000)), process(t, url, "killed", 1000)
	one, two := newRemindee(t, "orderapp", "one", stays, killed), newRemindee(t, "orderapp", "two", stays, killed)
	poll.Until(t, "each has a bucket", func() bool { return len(one.table().GetInstanceSync()) >= 2 && len(one.table().Instances) == 2 })

	var mu sync.Mutex
	made := map[string]string{} // names by id
	making := func(s *remindee, prefix string, stop <-chan struct{}, at ...*instance) {
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprint(prefix, k)
			id := s.makes(&reminderv1.Reminder{ReminderName: name, InitialDelay: "1s"}, at...)
			mu.Lock()
			if made[id] != "" {
				t.Errorf("%s is the id of %s and of %s", id, made[id], name)
			}
			made[id] = name
			mu.Unlock()
		}
	}
	var makers sync.WaitGroup
	stop := make(chan struct{})
	for i, s := range []*remindee{one, two} {
		makers.Go(func() { making(s, fmt.Sprint("a", i, "-"), stop, stays, killed) })
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(made)
	}
	poll.Until(t, "both make reminders", func() bool { return count() >= 100 })
	killed.end()
	before := count()
	poll.Until(t, "both go on with the instance that is left", func() bool { return count() >= before+200 })
	close(stop)
	makers.Wait()

	two.leave()
	again := process(t, url, "killed", 1000)
	one.connect(again)
	stop = make(chan struct{})
	makers.Go(func() { making(one, "b", stop, stays, again) })
	before = count()
	poll.Until(t, "they go on with a new one", func() bool { return count() >= before+50 })
	close(stop)
	makers.Wait()
	poll.Until(t, "all are executed", func() bool {
		for id := range made { // not by name: a call whose answer is lost is made again, and there are two of the name
			if len(one.fires(id))+len(two.fires(id)) == 0 {
				return false
			}
		}
		return true
	})
	for id, name := range made {
		if fires := append(one.fires(id), two.fires(id)...); len(fires) > 2 || len(fires) == 2 && fires[0] != fires[1] {
			t.Errorf("%s, %s, has the fires %q", id, name, fires)
		}
	}
	t.Logf("%d reminders", len(made))
}

// TestAMoveSurvivesACrashInTheMiddle kills an instance that moves reminders, and with ROUSE_REMINDER_KILLS
// several, one after another: each of them has one place, can be found by every id that anybody was told, and
// is executed.
func TestAMoveSurvivesACrashInTheMiddle(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("ROUSE_REMINDER_KILLS") != "" {
		rounds = 3
	}
	url := servers.Postgres(t)
	stays := runReminderNode(t, url, named("stays", 1000))
	one, two := newRemindee(t, "orderapp", "one", stays), newRemindee(t, "orderapp", "two", stays)
	poll.Until(t, "each has a bucket", func() bool { return len(two.table().GetInstanceSync()) >= 2 })
	var ids []string
	for k := range 60 {
		ids = append(ids, one.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("m", k), Schedule: "200ms", InitialDelay: "3s"}, stays))
	}
	told := map[string]string{} // id by the one that was asked for
	for round := range rounds {
		mover := process(t, url, fmt.Sprint("mover", round), 1000)
		one.connect(mover)
		two.connect(mover)
		var asking sync.WaitGroup
		var mu sync.Mutex
		moved := 0
		ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
		for k := range 60 {
			asking.Go(func() {
				to := []*remindee{two, one}[round%2]
				for ctx.Err() == nil { // an instance that was killed counts as living for a while, and nothing moves then
					res, err := mover.SubscribeReminder(ctx, &reminderv1.SubscribeReminderRequest{ReminderList: []string{ids[k]}, Caller: to.caller})
					if err == nil && res.Results[0].Code == 0 {
						mu.Lock()
						told[ids[k]] = res.Results[0].ReminderId
						moved++
						mu.Unlock()
						return
					}
				}
			})
		}
		poll.Until(t, "some have moved", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return moved > 0
		})
		mover.end()
		cancel()
		asking.Wait()
	}
	now := map[string]bool{}
	for k, id := range ids {
		got, err := stays.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if now[got.ReminderId] {
			t.Errorf("two have the id %s", got.ReminderId)
		}
		now[got.ReminderId] = true
		if other := told[id]; other != "" {
			if same, err := stays.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: other}); err != nil || same.ReminderId != got.ReminderId {
				t.Errorf("by %s, which a client was told: %v, %v", other, same, err)
			}
		}
		name := fmt.Sprint("m", k)
		poll.Until(t, name+" is executed", func() bool { return len(one.fires(name))+len(two.fires(name)) > 1 })
	}
	t.Logf("%d of %d were told that they have moved", len(told), len(ids))
}

// TestAnInstanceThatHangs stops an instance, and lets it go on later as if nothing had happened: others take
// over, and no id is given twice.
func TestAnInstanceThatHangs(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	hangs := process(t, url, "hangs", 1000) // the first one: it leads
	stays := runReminderNode(t, url, named("stays", 1000))
	all := []*instance{stays, hangs}
	one, two := newRemindee(t, "orderapp", "one", all...), newRemindee(t, "orderapp", "two", all...)
	at := func(in *instance) (n int) {
		for _, row := range one.table().GetInstanceSync() {
			if row.RemSerInstance == in.address {
				n++
			}
		}
		return n
	}
	poll.Until(t, "each instance has a bucket", func() bool { return at(hangs) == 1 && at(stays) == 1 })
	ids := map[string]bool{}
	make := func(n int) {
		t.Helper()
		for k := range n {
			id := anywhere(t, []*remindee{one, two}[k%2], &reminderv1.Reminder{InitialDelay: "1h"}, func() []*instance { return all })
			if ids[id] {
				t.Fatalf("%s is given twice", id)
			}
			ids[id] = true
		}
	}
	make(20)
	hangs.signal(syscall.SIGSTOP)
	poll.Until(t, "the other one has all buckets", func() bool { return at(hangs) == 0 })
	make(50)
	hangs.signal(syscall.SIGCONT)
	one.connect(hangs)
	two.connect(hangs)
	poll.Until(t, "it has a bucket again", func() bool { return at(hangs) > 0 })
	make(50)
	if len(ids) != 120 {
		t.Errorf("%d ids", len(ids))
	}
}

// TestOneNodeThatIsKilled: what it has acknowledged is there when it is back, and its tokens go on after
// those that it gave.
func TestOneNodeThatIsKilled(t *testing.T) {
	t.Parallel()
	store := "pebble:" + t.TempDir()
	ids := map[string]bool{}
	var all []*remindee // some may be executed before the kill
	for round := range 3 {
		in := process(t, store, "alone", 1000)
		s := newRemindee(t, "orderapp", "one", in)
		for k := range 20 {
			id := s.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint(round, "-", k), InitialDelay: "2s"}, in)
			if ids[id] {
				t.Errorf("%s is given twice", id)
			}
			ids[id] = true
		}
		all = append(all, s)
		if round < 2 {
			in.end()
			s.leave()
		}
	}
	poll.Until(t, "all are executed", func() bool {
		for round := range 3 {
			for k := range 20 {
				name := fmt.Sprint(round, "-", k)
				if !slices.ContainsFunc(all, func(s *remindee) bool { return len(s.fires(name)) > 0 }) {
					return false
				}
			}
		}
		return true
	})
}
