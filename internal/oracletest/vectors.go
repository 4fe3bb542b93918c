// Package oracletest compares schedules with the answers of the libraries whose dialects they have, which
// tools/oracles has asked.
package oracletest

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// Answer is the answer of a library for an expression.
type Answer struct {
	Expr    string
	Zone    *time.Location
	Start   rouse.Instant
	Times   []rouse.Instant // the first after Start
	Until   rouse.Instant   // up to when there is no other, if the library was not asked for later ones
	Refused string          // why it is refused instead
}

// enough is how many answers of a file have to be the same, if least has no number.
const enough = 2000

// least is how many answers of a file are the same. A reason to differ, such as a change of the clocks, would
// otherwise hide a new fault.
var least = map[string]int{
	"apscheduler": 1931, "celery": 2589, "cron": 2598, "croner": 2448, "dateutil": 2478, "fugit": 2397, "lib-recur": 2509,
	"node-cron": 2587, "quartz": 2554, "robfig": 2579, "spring": 2591, "systemd": 2041,
}

// CompareAnswers compares the answers of a file with the schedules that parse returns. differs returns why
// another answer is right on purpose, as docs/moving-in.md has it, or an empty text.
func CompareAnswers(t *testing.T, file string, parse func(*Answer) (rouse.Schedule, error),
	differs func(*Answer) string) {
	t.Helper()
	t.Parallel()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	same, reasons := 0, map[string]int{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), "# ") {
			continue
		}
		a, err := readAnswer(scan.Text())
		if err != nil {
			t.Fatalf("%q: %v", scan.Text(), err)
		}
		s, err := parse(a)
		if got, wrong := a.compareSchedule(s, err); !wrong {
			same++
		} else if a.Refused != "" {
			reasons["more is accepted"]++ // there is no such expression to be moved
		} else if why := differs(a); why != "" {
			reasons[why]++
		} else {
			t.Errorf("%s in %v after %v is\n  %s\nthe library has\n  %s%v", a.Expr, a.Zone, a.Start, got, a.Refused, a.Times)
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	if want := cmp.Or(least[strings.TrimSuffix(filepath.Base(file), ".txt")], enough); same < want {
		t.Errorf("only %d answers are the same, not %d; others differ on purpose: %v", same, want, reasons)
	}
	t.Logf("%d answers are the same; others differ on purpose: %v", same, reasons)
}

// compareSchedule reports whether a schedule, or the error of its expression, is not as the answer, and
// returns its times.
func (a *Answer) compareSchedule(s rouse.Schedule, err error) (got string, wrong bool) {
	if err != nil { // an expression without any time is refused, too
		return err.Error(), a.Refused == "" && len(a.Times) > 0
	}
	if a.Refused != "" {
		return "accepted", true
	}
	var times []string
	after := a.Start
	most := len(a.Times)
	if most == 0 || a.Until > 0 {
		most++
	}
	for i := range most {
		next, ok := s.Next(after)
		if i < len(a.Times) {
			wrong = wrong || !ok || next != a.Times[i]
		} else {
			wrong = wrong || ok && (a.Until == 0 || next <= a.Until)
		}
		if !ok {
			break
		}
		times = append(times, next.String())
		after = next
	}
	return strings.Join(times, " "), wrong
}

// readAnswer reads a line of a file: expression, zone, start and times, each of which but the first is the
// number of seconds after the one before; a last one behind > is up to when there is no other.
func readAnswer(line string) (*Answer, error) {
	parts := strings.Split(line, "|")
	if len(parts) != 4 {
		return nil, strconv.ErrSyntax
	}
	a := &Answer{Expr: parts[0]}
	var err error
	if a.Zone, err = time.LoadLocation(parts[1]); err != nil {
		return nil, err
	}
	if a.Start, err = rouse.ParseInstant(parts[2]); err != nil {
		return nil, err
	}
	if why, ok := strings.CutPrefix(parts[3], "refused"); ok {
		a.Refused = "refused" + why
		return a, nil
	}
	before := a.Start
	for i, word := range strings.Fields(parts[3]) {
		word, last := strings.CutPrefix(word, ">")
		at, err := rouse.ParseInstant(word)
		if seconds, isDistance := strconv.Atoi(word); i > 0 {
			at, err = before.Add(time.Duration(seconds)*time.Second), isDistance
		}
		if err != nil {
			return nil, err
		}
		if last {
			a.Until = at
			break
		}
		a.Times = append(a.Times, at)
		before = at
	}
	return a, nil
}

// ChangesClocks reports whether the clocks change between the day before the start and the day after the last
// time: each library has its own rules for local times then.
func (a *Answer) ChangesClocks() bool {
	end := max(a.Start, a.Until)
	if n := len(a.Times); n > 0 {
		end = max(end, a.Times[n-1])
	}
	for at := a.Start.Time().Add(-24 * time.Hour); ; {
		_, change := at.In(a.Zone).ZoneBounds()
		if change.IsZero() || change.After(end.Time().Add(24*time.Hour)) {
			return false
		}
		if change.After(at) {
			return true
		}
		at = at.Add(24 * time.Hour)
	}
}
