package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/grpclink"
)

// away is a follower that is on node a alone, and a link to node b, which cannot be reached and notes when it
// is tried.
type away struct {
	follow
	a, b  *link
	tries chan time.Duration // since the last one
}

var errAway = errors.New("connection refused")

// leave begins to follow, in a bubble, where the time that it takes is exact. stop ends it.
func leave(t *testing.T) (w *away, stop func()) {
	ctx, end := context.WithCancelCause(t.Context())
	w = &away{follow: *newFollow(ctx, end, &Client{}, SubscribeOptions{}.withDefaults(), nil), tries: make(chan time.Duration, 100)}
	w.a = &link{address: "a:1", given: true, node: "a", standing: true, news: make(chan struct{}, 1)}
	w.links[w.a.address] = w.a
	last := time.Now()
	w.b = &link{address: "b:1", given: true, connect: func(context.Context) (grpc.ClientConnInterface, error) {
		w.tries <- time.Since(last)
		last = time.Now()
		return nil, errAway
	}}
	w.mu.Lock()
	w.startFireLink(w.b)
	w.mu.Unlock()
	return w, func() {
		end(nil)
		w.running.Wait()
	}
}

// names lets a say that it knows of the nodes with the given ids.
func (w *away) names(ids ...string) {
	p := &rousev1.Peers{Self: &rousev1.Peer{Id: "a", Address: "a:1"}}
	for _, id := range ids {
		p.Others = append(p.Others, &rousev1.Peer{Id: id, Address: id + ":1"})
	}
	w.notePeers(w.a, p)
}

// longestIn returns the longest pause between the tries of so much time.
func (w *away) longestIn(d time.Duration) (most time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	for {
		select {
		case took := <-w.tries:
			most = max(most, took)
		default:
			return most
		}
	}
}

// A node that no other node reports is tried less and less often. As soon as a live node reports it, it is
// tried at once, and then at least each second; when it is no longer reported, seldom again.
func TestANodeThatLivesIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := leave(t)
		defer stop()
		w.names()
		if most := w.longestIn(2 * time.Minute); most < mostPause/2 || most > mostPause {
			t.Errorf("a node that no node reports was tried after %v at the latest, want up to %v", most, mostPause)
		}
		for range 2 { // also when it comes a second time, with the same id
			w.names("b")
			synctest.Wait()
			if len(w.tries) == 0 {
				t.Error("a node that is named now was not tried at once")
			}
			<-w.tries // whose pause was that of before
			if most := w.longestIn(time.Minute); most > livingPause {
				t.Errorf("a node that lives was tried after %v at the latest, want %v", most, livingPause)
			}
			w.names()
			if most := w.longestIn(2 * time.Minute); most < mostPause/2 {
				t.Errorf("a node that is named no more was tried each %v", most)
			}
		}
	})
}

// Reports of nodes whose streams ended do not show that a node is live. The first node that is back does, for
// all that it reports.
func TestWhoNamesANodeMustLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := leave(t)
		defer stop()
		w.names("b")
		w.longestIn(time.Minute)
		w.noteStreamOver(w.a)
		if most := w.longestIn(2 * time.Minute); most < mostPause/2 {
			t.Errorf("a node that was named by one that is lost was tried each %v", most)
		}
		w.noteStreamOpen(w.a, "a")
		w.names("b")
		synctest.Wait()
		if len(w.tries) == 0 {
			t.Error("a node that is named again was not tried at once")
		}
	})
}

// A connection that failed is open for the first call after its node is back.
func TestAConnectionIsMadeAfresh(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	conn, err := newConnection(grpclink.Address{Target: address, Plain: true}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for state := connectivity.Idle; state != connectivity.TransientFailure; state = conn.GetState() {
		conn.Connect()
		conn.WaitForStateChange(ctx, state)
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	server := grpc.NewServer()
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()
	if reconnectNow(ctx, conn); conn.GetState() != connectivity.Ready {
		t.Errorf("the connection is %v", conn.GetState())
	}
}
