package bench

import (
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/rousetest/history"
)

// historyLog writes events into a history for the checker; without a writer it does nothing.
type historyLog struct{ w *history.Writer }

// writeConfig sets how the run is judged: a run at full speed is late by its nature.
func (c historyLog) writeConfig(maxLate time.Duration) {
	c.writeEvent(history.Config{MaxLate: maxLate, AttemptTimeout: 30 * time.Second, MaxBackoff: time.Minute,
		Lease: 30 * time.Second, StrictDup: true, DST: history.Vixie})
}

// writeCreates notes the answers to a message that was sent at t0.
func (c historyLog) writeCreates(resp *rousev1.BatchCreateResponse, t0 time.Time) {
	if c.w == nil {
		return
	}
	t1 := history.At(time.Now())
	for _, t := range resp.Created {
		due := history.At(time.UnixMilli(t.DueMs))
		c.writeEvent(history.Put{Timer: t.Name, Gen: 1, Spec: history.Spec{At: due}, T0: history.At(t0), T1: t1,
			Res: history.OK, Due: due})
	}
}

// writeFires notes fires that came at now and are acknowledged at once.
func (c historyLog) writeFires(fires []*rousev1.Fire, now time.Time) {
	if c.w == nil {
		return
	}
	for _, f := range fires {
		c.writeEvent(history.Fire{Timer: f.Name, Gen: 1, Due: history.At(time.UnixMilli(f.DueMs)), T: history.At(now),
			T1: history.At(now), Key: f.Id,
			Attempt: int(f.Attempt), Epoch: f.Token, Reply: history.ReplyOK})
	}
}

func (c historyLog) writeEnd() { c.writeEvent(history.End{T: history.At(time.Now())}) }

// writeEvent leaves the error to the writer, which keeps it for Flush.
func (c historyLog) writeEvent(e history.Event) {
	if c.w != nil {
		_ = c.w.Write(e)
	}
}
