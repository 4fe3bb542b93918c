package cli

import (
	"fmt"
	"strings"
	"time"
)

// Progress is a bar on stderr for work that takes long, drawn only on a terminal. It is used by one
// goroutine.
type Progress struct {
	a     *App
	what  string
	total int64 // 0: not known
	Left  bool  // print the remaining time
	began time.Time
	drawn time.Time
	shown bool
}

// progressEvery is the interval of drawing: short enough to move, long enough to cost nothing.
const progressEvery = 100 * time.Millisecond

func (a *App) NewProgress(what string, total int64) *Progress {
	return &Progress{a: a, what: what, total: total, began: time.Now(), drawn: time.Now()}
}

// DrawBar draws the bar for the given progress, of which count is a number of things; done and total may be
// bytes.
func (p *Progress) DrawBar(done, count int64) {
	now := time.Now()
	if !p.a.ErrTTY || p.a.Flags.Quiet || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn, p.shown = now, true
	fmt.Fprint(p.a.ErrOut, "\r\x1b[K"+p.barText(done, count, now))
}

func (p *Progress) barText(done, count int64, now time.Time) string {
	rate := float64(count) / max(now.Sub(p.began).Seconds(), 0.001)
	s := fmt.Sprintf("%s %d, %.0f/s", p.what, count, rate)
	if p.total <= 0 {
		return s
	}
	const width = 30
	share := min(1, float64(done)/float64(p.total))
	full := int(share * width)
	if p.Left && share > 0 {
		took := now.Sub(p.began)
		s += fmt.Sprintf(", %v left", time.Duration(float64(took)/share-float64(took)).Round(time.Second))
	}
	return fmt.Sprintf("[%s%s] %3.0f%% %s", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100, s)
}

// ClearBar removes the bar.
func (p *Progress) ClearBar() {
	if p.shown {
		fmt.Fprint(p.a.ErrOut, "\r\x1b[K")
	}
}
