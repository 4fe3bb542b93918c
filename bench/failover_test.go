package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func TestAWitnessTellsTheTimersOfTheDeadFromOthers(t *testing.T) {
	begin := time.UnixMilli(1_000_000)
	ids := 0
	fire := func(timer int64, at time.Duration) []*rousev1.Fire {
		ids++
		return []*rousev1.Fire{{Name: benchTimerName(timer), Id: fmt.Sprint(ids), DueMs: begin.Add(at).UnixMilli()}}
	}
	w := &fireObserver{timers: make([]observedTimer, 5), fires: map[string]bool{}}
	see := func(stream int, timer int64, at time.Duration) { w.recordFires(stream, fire(timer, at), begin.Add(at)) }
	see(0, 0, 0)
	see(1, 0, time.Second) // it moved
	see(1, 1, 0)
	see(1, 2, 0)
	see(1, 4, 0)
	see(0, 3, 0)
	if got := w.busiestNode(3); got != 1 {
		t.Fatalf("node %d fired the most, not 1", got)
	}
	w.markNodeLost(1)
	killed := begin.Add(2 * time.Second)
	see(1, 0, 2500*time.Millisecond) // was on its way
	see(1, 4, 2500*time.Millisecond)
	see(0, 0, 4*time.Second)
	see(2, 4, 5*time.Second)
	see(0, 0, 5*time.Second)
	see(2, 1, 6*time.Second)
	see(0, 3, 3*time.Second)
	twice := fire(3, 4*time.Second)
	w.recordFires(0, twice, begin.Add(4*time.Second))
	w.recordFires(2, twice, begin.Add(4*time.Second))
	w.recordFires(0, fire(3, 5*time.Second), begin.Add(4900*time.Millisecond)) // early
	f, lost := w.measureSilence(Options{Lease: 2 * time.Second}, killed)
	if f.Timers != 4 || lost != 1 || w.doubled != 1 || w.early != 1 {
		t.Errorf("%d timers of the dead, %d lost, %d doubled, %d early", f.Timers, lost, w.doubled, w.early)
	}
	if f.Max != 4 || f.P50 < 3 || f.P50 > 3.2 || f.Others < 3 {
		t.Errorf("%+v", f)
	}
	w.resetLateness()
	w.recordFires(0, []*rousev1.Fire{{Name: benchTimerName(3), Id: "late", DueMs: begin.UnixMilli()}}, begin.Add(700*time.Millisecond))
	if p99, most := w.latenessQuantiles(); p99 < .6 || most != .7 {
		t.Errorf("late by p99 %v, max %v", p99, most)
	}
}

func TestLoadIsSpreadOverAllServers(t *testing.T) {
	tg, err := openTarget(t.Context(), Options{Server: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.closeTarget()
	had := map[string]int{}
	for i := range tg.roundToServers(4) {
		had[strings.TrimPrefix(tg.conns[i%len(tg.conns)].Target(), "passthrough:///")]++
	}
	if len(tg.conns) != 6 || len(had) != 3 || had["127.0.0.1:1"] != 2 || had["127.0.0.1:3"] != 2 {
		t.Errorf("%d connections, streams %v", len(tg.conns), had)
	}
}
