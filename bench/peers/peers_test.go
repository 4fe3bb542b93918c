package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestPeersWorkEveryJob runs each peer through a little of each scenario, on a real server.
func TestPeersWorkEveryJob(t *testing.T) {
	for _, p := range peers {
		for _, s := range []scenario{createBatch, pipeline, lag} {
			t.Run(p.name+" "+string(s), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				r, err := measure(ctx, p, s, work{jobs: 300, size: 50, rate: 300})
				if err != nil {
					t.Fatal(err)
				}
				if r.Jobs < 300 || r.Rate <= 0 || r.Scenario != s || r.Peer != p.name {
					t.Errorf("%+v", r)
				}
				if s != createBatch && (r.Early == nil || r.P99 < r.P50 || r.Max < r.P99) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

func TestWrongPeersAreRefused(t *testing.T) {
	for _, args := range [][]string{{"sidekiq"}, {"-rate", "0"}, {"-duration", "-1s"}} {
		var out strings.Builder
		if err := run(context.Background(), args, &out, &out); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, %s", args, err, out.String())
		}
	}
}
