//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sentinel is a Redis with a replica, and a sentinel that promotes the replica when the master does not
// answer for one and a half seconds. Replication is asynchronous: the last acknowledged writes may be lost
// with the master.
type Sentinel struct {
	// Master and Replica are named by their first roles; a failover changes the roles.
	Master, Replica *Server

	// Watcher is the sentinel itself. Its URL is for go-redis' failover client (ParseFailoverURL), which
	// connects to the current master.
	Watcher *Server

	// Name is the sentinel's name for the master.
	Name string
}

// downAfter is in milliseconds. A sentinel takes up to a second to connect to a new master, which must not
// count as an outage.
const downAfter = 1500

// StartSentinel starts all three, and returns when a failover is possible.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	path := requireProgram(t, "redis-server")
	s := &Sentinel{Name: "rouse", Master: StartRedis(t, "repl-diskless-sync-delay=0")}
	host, port, _ := strings.Cut(s.Master.Addr(), ":")
	s.Replica = StartRedis(t, "replicaof="+host+" "+port, "repl-diskless-sync-delay=0")
	s.awaitCondition(t, "the replica has what the master has", func(ctx context.Context) error {
		info, err := redisCall(ctx, s.Replica.Addr(), "INFO", "replication").Text()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = fmt.Errorf("%s", info)
		}
		return err
	})
	p, err := launchServer("sentinel", 1, nil, func(p *process) error {
		conf := filepath.Join(p.dir, "sentinel.conf")
		text := fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
sentinel monitor %s %s %s 1
sentinel down-after-milliseconds %[3]s %[6]d
sentinel failover-timeout %[3]s 5000
`, p.ports[0].port, p.dir, s.Name, host, port, downAfter)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			return err
		}
		p.path, p.args = path, []string{conf, "--sentinel"}
		describeReady(p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := p.ports[0].claimedAddr()
	s.Watcher = newServer(t, p, redisURL(addr)+"?master_name="+url.QueryEscape(s.Name), addr)
	s.awaitCondition(t, "the sentinel knows the replica", func(ctx context.Context) error {
		replicas, err := redisCall(ctx, addr, "SENTINEL", "REPLICAS", s.Name).Slice()
		if err == nil && (len(replicas) != 1 || !strings.Contains(fmt.Sprint(replicas), "master-link-status:ok")) {
			err = fmt.Errorf("it knows %v", replicas)
		}
		return err
	})
	return s
}

// AwaitMaster returns when the sentinel reports that server is the master, and the server accepts writes.
func (s *Sentinel) AwaitMaster(t testing.TB, server *Server) {
	t.Helper()
	s.awaitCondition(t, server.Addr()+" is the master", func(ctx context.Context) error {
		addr, err := redisCall(ctx, s.Watcher.Addr(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name).StringSlice()
		if err == nil && strings.Join(addr, ":") != server.Addr() {
			err = fmt.Errorf("the sentinel reports %v", addr)
		}
		if err != nil {
			return err
		}
		role, err := redisCall(ctx, server.Addr(), "ROLE").Slice()
		if err == nil && (len(role) == 0 || role[0] != "master") {
			err = fmt.Errorf("its role is %v", role)
		}
		return err
	})
}

func (s *Sentinel) awaitCondition(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := pollUntilNil(ctx, f); err != nil {
		t.Fatalf("%s: not within %v: %v", what, patience, err)
	}
}
