package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// TestPicturesByKeyboard: the tab key reaches one bar and one hour, the arrow keys the others, and Enter
// chooses. What is chosen is in the URL.
func TestPicturesByKeyboard(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	const here = `document.activeElement.ariaLabel`
	p.open("/load")
	p.tabTo("button.cell")
	first := eval[string](p, here)
	p.press(kb.ArrowRight, kb.ArrowDown)
	p.until(fmt.Sprintf(`%s.slice(0, 10) > %q.slice(0, 10)`, here, first))
	p.press(kb.Home)
	p.until(fmt.Sprintf(`%s === %q`, here, first))
	p.press(kb.Enter)
	p.until(`location.search.includes("at=") && document.activeElement.getAttribute("aria-pressed") === "true"`)
	p.press(kb.Enter)
	p.until(`!location.search.includes("at=")`)

	p.open("/fires?within=24h")
	p.tabTo(".chart button.col")
	p.press(kb.End, kb.ArrowLeft)
	p.until(`document.activeElement.matches(".col:nth-last-child(2)")`)
	label := eval[string](p, here)
	p.press(kb.Enter)
	p.until(`location.search.includes("from=") && location.search.includes("until=")`)
	if rows := p.rows(); rows != 0 && label == "" {
		t.Errorf("%q has %d rows", label, rows)
	}
	p.quiet("pictures")
}

// TestAnHourThatComesTwice: on the day that clocks go back, a cell of the heat map lists what it counts, and
// on the day that they go forward the cell after the gap is the one that opens.
func TestAnHourThatComesTwice(t *testing.T) {
	const twice = " (clocks go back: this hour comes twice)"
	for at, want := range map[time.Time]struct {
		cell, title string
		rows        int
	}{
		time.Date(2027, 10, 31, 0, 0, 0, 0, time.UTC): {
			"Sun 10-31 02:00: 8 come due" + twice, "Sun 10-31 02:00 – 03:00: 8\u00a0occurrences" + twice, 8},
		time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC): {
			"Sun 03-28 03:00: 4 come due", "Sun 03-28 03:00 – 04:00: 4\u00a0occurrences", 4},
	} {
		b, w := openBrowser(t), newEmpty(t, rousetest.At(at.Add(-24*time.Hour)))
		w.Create("tick", rouse.Spec{Schedule: "*/15 * * * *", Target: "stream:x"})
		p := b.tab(t, w.url, looks[0])
		p.open("/load?at=" + url.QueryEscape(at.Format("2006-01-02T15:04:05.000Z")))
		if got := eval[string](p, `document.querySelector(".cell[aria-pressed=true]").title`); got != want.cell {
			t.Errorf("the cell is %q", got)
		}
		const titles = `[...document.querySelectorAll("#main h2")].map((e) => e.textContent).join("\n")`
		if got := eval[string](p, titles); !strings.HasPrefix(got, want.title+"\n") {
			t.Errorf("the titles are %q", got)
		}
		const rows = `document.querySelectorAll("table[aria-label='Fires of this hour'] tr[data-at]").length`
		if got := eval[int](p, rows); got != want.rows {
			t.Errorf("the hour lists %d", got)
		}
		p.quiet("an hour")
	}
}

// TestRangeIsDrawn: the pointer draws a range over the chart of the fires, and the rows are those of it.
func TestRangeIsDrawn(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/fires?within=24h")
	all := p.rows()
	box := eval[[]float64](p, `(() => { const r = document.querySelector(".chart .cols").getBoundingClientRect(); return [r.left, r.top + r.height / 2, r.width]; })()`)
	mouse := func(kind input.DispatchMouseEventType, x float64) {
		command(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: box[1], Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
	}
	mouse(input.DispatchMouseEventTypeMousePressed, box[0]+box[2]*0.95) // the last hour is a twenty-fourth
	mouse(input.DispatchMouseEventTypeMouseMoved, box[0]+box[2]*0.98)
	p.until(`document.querySelectorAll(".col.drawn").length > 1`)
	mouse(input.DispatchMouseEventTypeMouseReleased, box[0]+box[2]*0.98)
	p.until(`location.search.includes("from=") && document.documentElement.dataset.loading === "0"`)
	if rows := p.rows(); rows == 0 || rows >= all {
		t.Errorf("%d rows of %d are left", rows, all)
	}
	if got := eval[bool](p, `(() => { const q = new URLSearchParams(location.search), at = [...document.querySelectorAll("td:first-child time")].map((e) => Date.parse(e.dateTime));
		return at.every((t) => t >= Date.parse(q.get("from")) && t < Date.parse(q.get("until"))); })()`); !got {
		t.Error("rows of another time are shown")
	}
	p.quiet("a range")
}

// TestRowsStayUnderThePointer: a row does not move away from the pointer, or from the focus, when others
// come.
func TestRowsStayUnderThePointer(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/fires?ns=default")
	const first = `document.querySelector("#main tr[data-at]").dataset.at`
	before := eval[string](p, first)
	p.tabTo("tr[data-at] a")
	moved := func() {
		w.Advance(15 * 60e9)
		p.until(`document.documentElement.dataset.loading === "0"`)
	}
	reads := eval[int](p, `performance.getEntriesByType("resource").filter((e) => e.name.includes("/records?")).length`)
	moved()
	p.until(fmt.Sprintf(`performance.getEntriesByType("resource").filter((e) => e.name.includes("/records?") && e.responseEnd).length > %d`, reads+1))
	if got := eval[string](p, first); got != before {
		t.Error("a row has moved away from the focus")
	}
	eval[bool](p, `(document.activeElement.blur(), true)`)
	p.until(fmt.Sprintf(`%s !== %q`, first, before))
	p.quiet("rows that stay")
}
