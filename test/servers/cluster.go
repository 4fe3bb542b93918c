//go:build unix

package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// StartRedisCluster starts a Redis Cluster of three masters without replicas, with the slots distributed
// evenly, and returns when each of them reports that it is complete. If one goes down, its third of the keys
// is unavailable; the others continue.
func StartRedisCluster(t testing.TB) []*Server {
	t.Helper()
	path := requireProgram(t, "redis-server")
	const masters, slots = 3, 16384
	nodes := make([]*Server, masters)
	buses := make([]int, masters) // the ports of the cluster bus
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do := func(node int, args ...any) {
		t.Helper()
		if err := redisCall(ctx, nodes[node].Addr(), args...).Err(); err != nil {
			t.Fatalf("cluster: %v: %v", args, err)
		}
	}
	for i := range nodes {
		p := launchClusterNode(t, path)
		addr := p.ports[0].claimedAddr()
		nodes[i], buses[i] = newServer(t, p, redisURL(addr), addr), p.ports[1].port
		do(i, "CLUSTER", "SET-CONFIG-EPOCH", i+1) // different from the start, otherwise the nodes have to agree on that first
		do(i, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
	}
	for i, n := range nodes[1:] {
		host, port, _ := strings.Cut(n.Addr(), ":")
		do(0, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	err := pollUntilNil(ctx, func(ctx context.Context) error {
		for _, n := range nodes {
			info, err := redisCall(ctx, n.Addr(), "CLUSTER", "INFO").Text()
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots), "cluster_size:3"} {
				if !strings.Contains(info, want) {
					return fmt.Errorf("%s has not %q: %s", n.Addr(), want, info)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the cluster is not complete within %v: %v", patience, err)
	}
	return nodes
}

// launchClusterNode starts a server that can join a Cluster.
func launchClusterNode(t testing.TB, path string) *process {
	t.Helper()
	p, err := launchServer("cluster", 2, nil, func(p *process) error {
		describeRedis(p, path, append(durableSettings(),
			[2]string{"cluster-enabled", "yes"},
			[2]string{"cluster-port", fmt.Sprint(p.ports[1].port)},
			[2]string{"cluster-node-timeout", "2000"},
			[2]string{"cluster-require-full-coverage", "no"},
			[2]string{"repl-diskless-sync-delay", "0"}))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// AddRedisReplicas adds a replica to each master of a Cluster, and returns the replicas when they are in
// sync.
func AddRedisReplicas(t testing.TB, masters []*Server) (replicas []*Server) {
	t.Helper()
	path := requireProgram(t, "redis-server")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, master := range masters {
		p := launchClusterNode(t, path)
		addr := p.ports[0].claimedAddr()
		replica := newServer(t, p, redisURL(addr), addr)
		replicas = append(replicas, replica)
		host, port, _ := strings.Cut(addr, ":")
		if err := redisCall(ctx, master.Addr(), "CLUSTER", "MEET", host, port, p.ports[1].port).Err(); err != nil {
			t.Fatal(err)
		}
		id, err := redisCall(ctx, master.Addr(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		err = pollUntilNil(ctx, func(ctx context.Context) error {
			return redisCall(ctx, addr, "CLUSTER", "REPLICATE",
				id).Err()
		})
		if err == nil {
			err = pollUntilNil(ctx, func(ctx context.Context) error {
				info, err := redisCall(ctx, addr, "INFO", "replication").Text()
				if err == nil && !strings.Contains(info, "master_link_status:up") {
					err = fmt.Errorf("%s", info)
				}
				return err
			})
		}
		if err != nil {
			t.Fatalf("a replica of %s: %v", master.Addr(), err)
		}
	}
	// A master that dies before the others know its replica is not replaced.
	err := pollUntilNil(ctx, func(ctx context.Context) error {
		for _, n := range append(slices.Clip(masters), replicas...) {
			nodes, err := redisCall(ctx, n.Addr(), "CLUSTER", "NODES").Text()
			if err != nil {
				return err
			}
			if strings.Count(nodes, " slave ")+strings.Count(nodes, "myself,slave ") < len(masters) {
				return fmt.Errorf("%s knows %s", n.Addr(), nodes)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return replicas
}
