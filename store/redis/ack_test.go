package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// TestAcknowledgedMeansReplicated: with ack_replicas, what was acknowledged is on the replica when the master
// dies, and what the replica does not receive is not acknowledged.
func TestAcknowledgedMeansReplicated(t *testing.T) {
	master := servers.StartRedis(t, "repl-diskless-sync-delay=0")
	link := servers.NewProxy(t, master.Addr())
	host, port, _ := strings.Cut(link.Addr(), ":")
	replica := servers.StartRedis(t, "replicaof="+host+" "+port, "repl-diskless-sync-delay=0")
	s := openTest(t, master.URL()+"?ack_replicas=1", Options{Timeout: 4 * time.Second})
	defer s.Close()
	if d := s.Durability(); !strings.Contains(d, "1 replicas have a write before it is acknowledged") {
		t.Errorf("durability is %q", d)
	}
	acknowledged := map[string]bool{}
	write := func(name string) error {
		r := rowOf(name)
		_, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: r}})
		acknowledged[name] = err == nil
		return err
	}
	eventually(t, "the replica has a write", func() error { return write("first") })
	for i := range 50 {
		if err := write(fmt.Sprint("before ", i)); err != nil {
			t.Fatal(err)
		}
	}
	link.CutToClient()
	for i := range 3 {
		if err := write(fmt.Sprint("unreplicated ", i)); !errors.Is(err, rouse.ErrUnavailable) {
			t.Errorf("a write that no replica has ended with %v", err)
		}
	}
	master.Kill()
	tell(t, replica.Addr(), "replicaof", "no", "one")
	promoted := openTest(t, replica.URL(), Options{})
	defer promoted.Close()
	for name, yes := range acknowledged {
		rows, err := promoted.Get(t.Context(), []rouse.Key{rowOf(name).Key})
		if err != nil || yes && rows[0].Revision == 0 {
			t.Errorf("%s was acknowledged, and is lost: %v", name, err)
		}
	}
}

// TestAcknowledgementsOfACluster: each shard waits for the replicas of its own master.
func TestAcknowledgementsOfACluster(t *testing.T) {
	masters := servers.StartRedisCluster(t)
	replicas := servers.AddRedisReplicas(t, masters)
	s := openTest(t, "redis+cluster://"+masters[0].Addr()+"?ack_replicas=1", Options{Timeout: 4 * time.Second})
	defer s.Close()
	for i := range 64 {
		r := rowOf(fmt.Sprint(i))
		eventually(t, "a write", func() error {
			_, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: r}})
			return err
		})
	}
	replicas[0].Kill()
	refused := 0
	for i := range 64 {
		r := rowOf(fmt.Sprint(i))
		_, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: r}})
		if err == nil {
			continue
		}
		if refused++; !errors.Is(err, rouse.ErrUnavailable) {
			t.Error(err)
		}
		if refused == 2 {
			return // each takes as long as the master waits
		}
	}
	t.Errorf("%d of 64 writes waited for a replica that is gone", refused)
}

// TestAcknowledgementsOfDisks: ack_fsync needs a server that has the command, and reports its lack.
func TestAcknowledgementsOfDisks(t *testing.T) {
	server := servers.StartRedis(t)
	commands, _ := tell(t, server.Addr(), "command", "info", "waitaof").([]any)
	s, err := Open(t.Context(), server.URL()+"?ack_fsync=true", Options{})
	if len(commands) == 0 || commands[0] == nil {
		if err == nil || !strings.Contains(err.Error(), "use Redis 7.2 or later") {
			t.Errorf("a server without WAITAOF: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, "synced")
	tell(t, server.Addr(), "config", "set", "appendonly", "no")
	r := rowOf("unsynced")
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: r}}); err == nil {
		t.Error("a write without an append-only file was acknowledged")
	}
}

func TestParametersOfAcknowledgements(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:secret@h1:1?ack_replicas=x":                           `ack_replicas is "x"`,
		"redis://h1:1?ack_replicas=-1":                                   `ack_replicas is "-1"`,
		"redis://h1:1?ack_replicas=17":                                   "use 0 to 16",
		"redis+cluster://h1:1,h2:2?ack_fsync=perhaps":                    `ack_fsync is "perhaps"`,
		"redis+sentinel://h1:1,h2:2/main?ack_replicas=2&ack_fsync=true":  "",
		"redis://h1:1,redis://h2:2?ack_replicas=2&ack_fsync=1&db=0":      "",
		"rediss://h1:1/3?skip_verify=true&ack_replicas=2&ack_fsync=true": "",
		"redis+cluster://u:p@h1:1,h2:2?ack_replicas=2&ack_fsync=t":       "",
	} {
		a, err := parseAddress(url)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, want %q", url, err, want)
		case want == "" && (err != nil || a.ack != ack{replicas: 2, fsync: true}):
			t.Errorf("%s: %+v, %v", url, a.ack, err)
		}
	}
	if _, _, err := Connect("redis://h1:1?ack_replicas=1", Options{}); err == nil || !strings.Contains(err.Error(), "leave ack_replicas and ack_fsync out") {
		t.Error(err)
	}
}
