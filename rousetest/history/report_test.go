package history

import (
	"strings"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	var lines []string
	add := func(line string) { lines = append(lines, expand(t, line)) }
	add("config early_tol_ms=5000")
	for i := range 1000 { // a millisecond late, two milliseconds late, …; but for the last one
		name := "t" + sec(float64(i)).String()
		add("create " + name + " 1 {at=10} 1 1.1 ok")
		if i < 999 {
			add("fire " + name + " 1 10 " + At(zero.Add(10*time.Second+time.Duration(i+1)*time.Millisecond)).String() + " 20 ok key=" + name)
		}
	}
	add("fire " + "t" + sec(999).String() + " 1 10 9.5 10 ok")                          // early
	add("fire " + "t" + sec(998).String() + " 1 10 15 20 ok key=t" + sec(998).String()) // while another runs
	add("fire " + "t" + sec(997).String() + " 1 10 25 26 ok key=t" + sec(997).String()) // after ok
	add("create maybe 1 {at=10} 1 1.1 info")                                            // needs not come, and does
	add("fire maybe 1 10 10 10.1 retry key=maybe")
	add("fire maybe 1 10 20 20.1 ok key=maybe")
	add("end 100")
	h, err := Read(strings.NewReader(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	r := Check(h)
	want := Stats{Events: 2007, Fires: 1004, Musts: 1000, Dups: 2, Early: 1,
		// 1001 in all: two of 0, and then 1 to 999.
		Lateness: Lateness{P50: 499 * time.Millisecond, P99: 989 * time.Millisecond, P999: 998 * time.Millisecond, Max: 999 * time.Millisecond}}
	if r.Stats != want || !r.OK() {
		t.Fatalf("got  %v %v\nwant %v", r.Stats, r.Violations, want)
	}
	const line = "events=2007 fires=1004 must=1000 dups=2 early=1 lateness p50=499ms p99=989ms p99.9=998ms max=999ms"
	if s := r.Stats.String(); s != line {
		t.Fatalf("%s\n%s", s, line)
	}
	if (Lateness{}) != summarizeLateness(nil) || summarizeLateness([]Time{7}) != (Lateness{7000, 7000, 7000, 7000}) {
		t.Fatal("lateness of nothing, or of one")
	}
}

// TestOrder checks that a report is the same each time, and reads by rule.
func TestOrder(t *testing.T) {
	var text strings.Builder
	for _, line := range []string{
		"create b 7 {every_ms=1000;start=10;until=12;serial=true} 1 1.1 ok", "create a 1 {at=10} 1 1.1 ok",
		"fire b 7 10 9 9.5 ok", "fire b 7 11 9.2 9.6 ok", "fire x 9 - 9.2 9.6 ok key=x", "end 100",
	} {
		text.WriteString(expand(t, line))
	}
	h, err := Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range Check(h).Violations {
		got = append(got, v.String())
	}
	want := []string{
		`C1-lost: timer "a" gen 1 due 2027-01-15T08:00:10.000000Z: nothing came by 2027-01-15T08:00:11.000000Z`,
		`C1-lost: timer "b" gen 7 due 2027-01-15T08:00:12.000000Z: nothing came by 2027-01-15T08:00:13.000000Z`,
		`C2-early: timer "b" gen 7 due 2027-01-15T08:00:10.000000Z: it arrived at 2027-01-15T08:00:09.000000Z, 1s early`,
		`C2-early: timer "b" gen 7 due 2027-01-15T08:00:11.000000Z: it arrived at 2027-01-15T08:00:09.200000Z, 1.8s early`,
		`C4-phantom: timer "x" gen 9: an arrival at 2027-01-15T08:00:09.200000Z: there never was such a timer`,
		`C10-order: timer "b" gen 7 due 2027-01-15T08:00:11.000000Z: it began at 2027-01-15T08:00:09.200000Z, the one due 2027-01-15T08:00:10.000000Z was done 2027-01-15T08:00:09.500000Z`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
