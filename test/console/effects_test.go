package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// TestEffectsAreShownFirst: while a verb is typed, its dialog shows what it would do, and what is wrong with
// it; nothing has changed before the button.
func TestEffectsAreShownFirst(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t, rousetest.At(time.Date(2027, 3, 25, 6, 30, 0, 0, time.UTC)))
	w.Create("coffee", rouse.Spec{Schedule: "0 9 * * *", Timezone: "Europe/Stockholm", Target: w.Receiver.URL()})
	w.Advance(3 * time.Hour)
	get := func() rouse.Timer {
		t.Helper()
		got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := get().Revision
	p := b.tab(t, w.url, looks[0])
	effect := func(id, field, text string, want ...string) {
		t.Helper()
		p.open("/timers/default/coffee")
		p.enter(fmt.Sprintf("[data-act=%s]", id))
		p.until(`!!document.querySelector("dialog[open] form")`)
		if field != "" {
			p.tabTo(fmt.Sprintf("dialog input[name=%s]", field))
			p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(text))
		}
		for _, part := range want {
			p.until(fmt.Sprintf(`document.querySelector("dialog[open]").innerText.includes(%q)`, part))
		}
	}
	effect("pause", "until", "3d", "3 occurrences would be due until then", "Fri 03-26 09:00:00", "Sun 03-28 09:00:00")
	effect("pause", "until", "2027-03-26 08:00", "No occurrence is due until then")
	effect("pause", "until", "tomorrow", "not understood as a time")
	effect("skip", "count", "2", "Skipped are 2 occurrences", "2027-03-28 09:00:00")
	effect("reschedule", "schedule", "30 2 * * *", "at 02:30 every day", "Sun 03-28 03:00:00", "02:30 does not exist")
	effect("reschedule", "schedule", "61 9 * * *", "61", "schedule")
	effect("backfill", "from", "-24h", "1 occurrence in this range", "09:00:00")
	effect("delete", "", "", "It would be due next at", "Fri 03-26 09:00:00")
	if got := get().Revision; got != before {
		t.Error("something was changed before the confirmation")
	}
	if eval[bool](p, `document.activeElement?.matches("dialog button[type=submit]")`) {
		t.Error("Enter would delete at once")
	}
	effect("backfill", "from", "-24h", "1 occurrence in this range")
	p.enter("dialog button[type=submit]")
	p.until(`!document.querySelector("dialog[open]")`)
	w.Advance(time.Second)
	p.until(`[...document.querySelectorAll("#main tr[data-at]:has(.s-fired)")].length === 2`)
	p.quiet("effects")
}

// TestCreateIsChecked: the server checks a timer while it is typed, and the command that the form shows makes
// the same one.
func TestCreateIsChecked(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/lab?schedule=0+9+*+*+MON-FRI&timezone=Europe%2FStockholm&off=weekends&shift=next")
	fill := func(name, text string) {
		p.tabTo(fmt.Sprintf("[name=%s]", name))
		p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)))
		p.press(text)
	}
	fill("target", "ftp://x")
	p.until(`!!document.querySelector(".create [role=alert]")?.innerText.includes("target")`)
	fill("target", "stream:x")
	p.until(`!!document.querySelector(".create [role=status]")?.innerText.includes("It would be due first at")`)
	fill("payload", "{")
	p.until(`!!document.querySelector(".create [role=alert]")?.innerText.includes("not JSON yet")`)
	fill("payload", exactly)
	fill("labels", "team=x, tier=1")
	fill("name", "by form")
	eval[bool](p, `(document.querySelectorAll(".create details").forEach((d) => { d.open = true; }), true)`)
	fill("attempts", "3")
	p.tabTo("[name=misfire]")
	p.press("i") // is skipped
	p.until(`document.querySelector("[name=misfire]").value === "skip"`)
	p.until(`!!document.querySelector(".create [role=status]")?.innerText.includes("It would be due first at")`)
	line := eval[string](p, `document.querySelector(".create .command code").textContent`)
	p.enter(".create button[type=submit]")
	p.until(`document.querySelector("h1")?.textContent === "by form"`)
	if out, err := paste(t, strings.Replace(line, "by form", "by command", 1), w.Address); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	form, err := w.Client.Get(t.Context(), rousetest.Namespace, "by form")
	if err != nil {
		t.Fatal(err)
	}
	command, err := w.Client.Get(t.Context(), rousetest.Namespace, "by command")
	if err != nil || form.Spec.Target != "stream:x" || form.Spec.Retry.Attempts != 3 || form.Spec.Misfire != rouse.MisfireSkip || len(form.Spec.Labels) != 2 || len(form.Spec.Calendar.Off) != 1 {
		t.Errorf("%+v, %v", form.Spec, err)
	}
	if got, want := fmt.Sprintf("%+v", command.Spec), fmt.Sprintf("%+v", form.Spec); got != want {
		t.Errorf("the command makes %s, the form %s", got, want)
	}
	if got := string(form.Spec.Payload); got != exactly {
		t.Errorf("the payload is %s, %s was typed", got, exactly)
	}
	if got, want := p.text(".payload pre"), "{\n  \"2\": 12345678901234567890,\n  \"1\": 1.10,\n  \"a\": \"it's\"\n}"; got != want {
		t.Errorf("the payload is shown as %q", got)
	}
	p.quiet("create")
}

// exactly is JSON that JavaScript would write otherwise.
const exactly = `{"2": 12345678901234567890, "1": 1.10, "a": "it's"}`

// TestNumbersAreSentAsTyped: the server sees what was typed, and refuses it by the text that the user knows.
func TestNumbersAreSentAsTyped(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/lab")
	eval[bool](p, `(document.querySelectorAll(".create details").forEach((d) => { d.open = true; }), true)`)
	for field, text := range map[string]string{"target": "stream:x", "attempts": "12345678901234567890"} {
		p.tabTo(fmt.Sprintf(".create [name=%s]", field))
		p.press(text)
	}
	p.until(`!!document.querySelector(".create [role=alert]")?.innerText.includes("12345678901234567890")`)
	p.quiet("numbers")
}

// TestRescheduleOfWhatWasSeen: a reschedule replaces the schedule that its dialog showed: an occurrence that
// fires in the meantime is no hindrance, a change by another client is, and is not overwritten.
func TestRescheduleOfWhatWasSeen(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "@every 10m", Except: []string{"2027-12-24"}, MaxOccurrences: 1000, Target: w.Receiver.URL()})
	get := func() rouse.Timer {
		t.Helper()
		got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	p := b.tab(t, w.url, looks[0])
	begin := func(schedule string) {
		t.Helper()
		p.open("/timers/default/coffee")
		p.enter("[data-act=reschedule]")
		p.until(`!!document.querySelector("dialog[open] form")`)
		p.tabTo("dialog input[name=schedule]")
		p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(schedule))
	}
	begin("@every 20m")
	before := get().Revision
	w.Advance(11 * time.Minute)
	if get().Revision == before {
		t.Fatal("it has not fired")
	}
	line := eval[string](p, `document.querySelector("dialog .command code").textContent`)
	if out, err := paste(t, line, w.Address); err == nil || !strings.Contains(out, "revision") {
		t.Errorf("the command is for what was seen: %v, %s", err, out)
	}
	p.enter("dialog button[type=submit]")
	p.until(`!document.querySelector("dialog[open]")`)
	if got := get().Spec; got.Schedule != "@every 20m" || len(got.Except) != 1 || got.MaxOccurrences != 1000 {
		t.Fatalf("it is %+v", got)
	}
	begin("@every 30m")
	if _, err := w.Client.Reschedule(t.Context(), rousetest.Namespace, "coffee", rouse.Spec{Schedule: "@every 20m", Except: []string{"2027-12-25"}}); err != nil {
		t.Fatal(err)
	}
	p.enter("dialog button[type=submit]")
	p.until(`!!document.querySelector("dialog .problem")?.innerText.includes("was changed in the meantime")`)
	if got := get().Spec; got.Schedule != "@every 20m" || got.Except[0] != "2027-12-25" {
		t.Errorf("the change of another client was overwritten: %+v", got)
	}
	p.press(kb.Escape)
	begin("@every 30m")
	line = eval[string](p, `document.querySelector("dialog .command code").textContent`)
	if out, err := paste(t, line, w.Address); err != nil {
		t.Errorf("%s: %v: %s", line, err, out)
	}
	if got := get().Spec; got.Schedule != "@every 30m" || got.Except[0] != "2027-12-25" {
		t.Errorf("%s makes %+v", line, got)
	}
	p.quiet("reschedule")
}

// TestPauseOfAllIsUndone: all of a namespace are paused from the list of namespaces, and the message that
// tells so leads back.
func TestPauseOfAllIsUndone(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	for i := range 3 {
		w.Create(fmt.Sprint("t", i), rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"})
	}
	paused := func() (n int) {
		for i := range 3 {
			if got, err := w.Client.Get(t.Context(), rousetest.Namespace, fmt.Sprint("t", i)); err == nil && got.Paused {
				n++
			}
		}
		return n
	}
	p := b.tab(t, w.url, looks[0])
	pause := func() {
		p.open("/namespaces")
		p.do(click(in("td button", "Pause all")))
		p.until("!!" + confirm + ` && document.activeElement?.name === "until"`)
		p.press(kb.Enter)
		p.until(`!document.querySelector("dialog[open]") && !!document.querySelector(".toast")`)
	}
	pause()
	if paused() != 3 {
		t.Fatalf("%d are paused", paused())
	}
	p.do(click(in(".toast button", "Undo")))
	p.until(`document.querySelector("dialog[open] .big")?.textContent === "3"`)
	p.do(click(confirm))
	p.until(`!document.querySelector("dialog[open]")`)
	if paused() != 0 {
		t.Errorf("%d are still paused", paused())
	}
	// What was paused before is not resumed by the way.
	if _, err := w.Client.Pause(t.Context(), rousetest.Namespace, "t0", "moving"); err != nil {
		t.Fatal(err)
	}
	pause()
	if eval[bool](p, `[...document.querySelectorAll(".toast button")].some((e) => e.textContent === "Undo")`) {
		t.Error("the undo of a pause would resume what was paused before")
	}
	p.quiet("undo")
}

// TestPalette finds timers by a verb and their name, views by the names of commands, and namespaces.
func TestPalette(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"})
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, w.url, l)
		ask := func(text, option string) {
			t.Helper()
			p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
			p.until(`document.activeElement?.getAttribute("role") === "combobox"`)
			p.do(chromedp.KeyEvent(text))
			p.until(fmt.Sprintf(`document.querySelector("[role=option] bdi")?.textContent === %q`, option))
			p.strikeKey('\r')
		}
		p.open("/")
		if l.wide == 390 { // the tools are in the menu
			p.do(click(`document.querySelector("button.menu")`))
			p.until(`!!document.querySelector("nav.open .search")`)
			p.press(kb.Escape)
			p.until(`!document.querySelector("nav.open")`)
		}
		for text, title := range map[string]string{"redrive": "Dead letters", "forecast": "Coming load", "whoami": "Access", "buckets": "Cluster"} {
			ask(text, title)
			p.until(fmt.Sprintf(`document.querySelector("h1")?.textContent === %q`, title))
		}
		ask("skip cof", "Skip next coffee")
		p.until(`document.querySelector("dialog[open]")?.ariaLabel === "Skip next: coffee"`)
		p.press(kb.Escape)
		p.until(`!document.querySelector("dialog[open]")`)
		p.strikeKey('n')
		p.until(`document.activeElement?.getAttribute("role") === "combobox" && document.querySelectorAll("[role=option]").length === 2`)
		p.press("other")
		p.strikeKey('\r')
		p.until(`location.search.includes("ns=other") && document.querySelector("button.ns").innerText.includes("other")`)
		p.quiet("palette")
	}
}

// TestOrders: the heads of columns sort all timers, not those of the page alone.
func TestOrders(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	for i, at := range []string{"10h", "2h", "5h"} {
		w.Create(fmt.Sprint("t", i), rouse.Spec{Schedule: "@after " + at, Target: "stream:x"})
	}
	p := b.tab(t, w.url, looks[0])
	p.open("/timers")
	names := func(want string) {
		t.Helper()
		p.until(fmt.Sprintf(`[...document.querySelectorAll("td a.name")].map((e) => e.textContent).join() === %q`, want))
	}
	names("t0,t1,t2")
	p.enter("th:has(+ th + th) .sort")
	names("t2,t1,t0")
	p.do(click(in("th .sort", "Due")))
	names("t1,t2,t0")
	p.do(click(in("th .sort", "Due")))
	names("t0,t2,t1")
	if got := eval[string](p, `document.querySelector("th[aria-sort=descending]").textContent`); !strings.HasPrefix(got, "Due") {
		t.Errorf("sorted is %s", got)
	}
	p.open("/timers?text=AFTER")
	if got := p.text("#main"); !strings.Contains(got, "No timer matches") {
		t.Errorf("a text that no timer has: %s", got)
	}
	p.open("/timers?text=T1")
	names("t1")
	p.quiet("orders")
}
