package bench

import (
	"context"
	"errors"
	"syscall"
	"time"

	"google.golang.org/grpc"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Handover is how late timers were when a node left in order and when it came back, in seconds: the latest
// fire of each timer.
type Handover struct {
	LeavingP99 float64 `json:"leaving_p99_seconds"`
	LeavingMax float64 `json:"leaving_max_seconds"`
	JoiningP99 float64 `json:"joining_p99_seconds"`
	JoiningMax float64 `json:"joining_max_seconds"`
}

// unnoticed is how late timers may be when a node comes or goes in order.
const unnoticed = 300 * time.Millisecond

// handoverWatch is how long it watches after a node has gone or come.
const handoverWatch = 4 * time.Second

// measureHandover has timers fire every second, stops the node that fires most of them in order, and starts
// it again.
func measureHandover(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	w, sub, err := everySecond(ctx, o, t)
	if err != nil {
		return nil, err
	}
	defer sub.closeStreams() //nolint:errcheck // where it matters, it was looked at
	h := &Handover{}
	r := &Result{RSS: t.serversUsage().peak, Timers: int64(len(w.timers)), Handover: h, Early: &w.early,
		Doubled: &w.doubled}

	node := w.busiestNode(len(t.addrs))
	w.resetLateness()
	sub.lost[node].Store(true)
	if err := t.processes[node].stopProcess(syscall.SIGTERM); err != nil {
		return nil, err
	}
	if err := sleepContext(ctx, handoverWatch); err != nil {
		return nil, err
	}
	h.LeavingP99, h.LeavingMax = w.latenessQuantiles()

	w.resetLateness()
	p, err := startProcess(ctx, t.o, t.dir, node)
	if err != nil {
		return nil, err
	}
	t.processes[node] = p // t ends it
	conn, err := t.dialCounted(p.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	again, err := subscribeStreams(ctx, &target{addrs: []string{p.addr}, conns: []*grpc.ClientConn{conn}}, 1, "bench",
		func(_ int, fires []*rousev1.Fire, now time.Time) { w.recordFires(node, fires, now) })
	if err != nil {
		return nil, err
	}
	if err := sleepContext(ctx, handoverWatch); err != nil {
		return nil, errors.Join(err, again.closeStreams())
	}
	h.JoiningP99, h.JoiningMax = w.latenessQuantiles()
	r.addGoal(h.LeavingP99 <= unnoticed.Seconds() && h.JoiningP99 <= unnoticed.Seconds(), "p99 at most 0.3 s late")
	r.addGoal(w.early == 0 && w.doubled == 0, "none early or doubled")
	_ = sub.closeStreams()
	return r, errors.Join(again.closeStreams(), errors.Join(sub.errs...))
}

// resetLateness begins to measure how late timers are.
func (w *fireObserver) resetLateness() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.timers {
		w.timers[i].late = 0
	}
}

// latenessQuantiles returns how late timers were since mark.
func (w *fireObserver) latenessQuantiles() (p99, most float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var late lagHistogram
	for i := range w.timers {
		late.recordLag(w.timers[i].late)
	}
	return late.lagQuantile(.99).Seconds(), late.max.Seconds()
}
