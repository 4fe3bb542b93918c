package history

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// million is a history of a million events: timers of one occurrence, and a thousand that share five cron
// expressions.
func million() []Event {
	es := []Event{Defaults, End{sec(3700)}}
	for i := range 400_000 {
		name, at := fmt.Sprintf("once-%d", i), sec(10+float64(i%3_000_000)/1000)
		es = append(es, Put{Timer: name, Gen: 1, Spec: Spec{At: at}, T0: sec(1), T1: sec(2), Res: OK, Due: at},
			Fire{Timer: name, Gen: 1, Due: at, T: at + 2000, T1: at + 2500, Key: name, Attempt: 1, Reply: ReplyOK})
	}
	for i := range 1000 {
		name := fmt.Sprintf("cron-%d", i)
		es = append(es, Put{Timer: name, Gen: 1, Spec: Spec{Cron: fmt.Sprintf("%d/20 * * * * *", i%5), Until: sec(3650)}, T0: sec(1), T1: sec(4), Res: OK})
		for k := range 182 {
			due := sec(float64(20 + 20*k + i%5))
			es = append(es, Fire{Timer: name, Gen: 1, Due: due, T: due + 2000, T1: due + 3000, Key: name + due.String(), Attempt: 1, Reply: ReplyOK})
		}
		for k := range 18 {
			es = append(es, Get{Timer: name, T0: sec(float64(5 + k)), T1: sec(float64(6 + k)), Res: OK, Gen: 1})
		}
	}
	return es
}

func BenchmarkMillion(b *testing.B) {
	es := million()
	var log bytes.Buffer
	perEvent := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(es)), "ns/event")
	}
	w := NewWriter(&log)
	for _, e := range es {
		if err := w.Write(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			w := NewWriter(io.Discard)
			for _, e := range es {
				if err := w.Write(e); err != nil {
					b.Fatal(err)
				}
			}
		}
		perEvent(b)
	})
	var h *History
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			var err error
			if h, err = Read(bytes.NewReader(log.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b)
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if r := Check(h); r.Stats.Musts < 500_000 || len(r.Violations) > 0 {
				b.Fatal(r.Stats, len(r.Violations))
			}
		}
		perEvent(b)
	})
}
