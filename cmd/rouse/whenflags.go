package main

import (
	"errors"
	"time"

	"github.com/rousehq/rouse"
)

// whenFlags define when a timer is due, in addition to its schedule.
type whenFlags struct {
	Timezone       string        `help:"Time zone of a cron expression, such as Europe/Stockholm; UTC if not given." placeholder:"ZONE"`
	Also           []string      `help:"A further schedule: due whenever any of them is; can be repeated." placeholder:"EXPR" sep:"none"`
	Except         []string      `help:"Times taken out: a date, a range with / between, or five cron fields; can be repeated." placeholder:"TIMES" sep:"none"`
	DST            string        `name:"dst" help:"What becomes of local times that a clock change skips or repeats; vixie if not given." placeholder:"POLICY"`
	CalendarOff    []string      `help:"Leave out the days of this calendar, such as weekends; can be repeated." placeholder:"NAME"`
	CalendarOnly   []string      `help:"Keep to the days of this calendar; can be repeated." placeholder:"NAME"`
	CalendarShift  string        `help:"What becomes of an occurrence on a day that does not count: skip (the default), next or previous." placeholder:"POLICY"`
	Start          moment        `help:"Nothing is due before; intervals begin here." placeholder:"TIME"`
	End            moment        `help:"Nothing is due at this time or later." placeholder:"TIME"`
	TTL            time.Duration `name:"ttl" help:"The same, counted from creation." placeholder:"DURATION"`
	MaxOccurrences uint64        `help:"The schedule ends after so many occurrences." placeholder:"N"`
	Jitter         time.Duration `help:"Send each occurrence later than due by a part of this, the same part every time." placeholder:"DURATION"`
}

// when sets the fields of a spec from the flags.
func (f *whenFlags) when(s *rouse.Spec) error {
	s.Timezone, s.Also, s.Except, s.DST, s.Start, s.End = f.Timezone, f.Also, f.Except, f.DST, f.Start.instant(), f.End.instant()
	s.TTL, s.MaxOccurrences, s.Jitter = f.TTL, f.MaxOccurrences, f.Jitter
	shift, err := rouse.ParseShift(f.CalendarShift)
	s.Calendar = rouse.CalendarRule{Off: f.CalendarOff, Only: f.CalendarOnly, Shift: shift}
	return err
}

// whenOf returns a spec that only defines when, and refuses invalid values.
func (f *whenFlags) whenOf(schedule string) (rouse.Spec, error) {
	s := rouse.Spec{Schedule: schedule, Target: "stream:"} // every spec needs a target; this one is not used
	err := f.when(&s)
	var problems []rouse.Problem
	for _, err := range []error{err, s.Check()} {
		if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
			problems = append(problems, inv.Problems...)
		}
	}
	s.Target = ""
	if len(problems) > 0 {
		return s, flagged(&rouse.Invalid{Problems: problems})
	}
	return s, nil
}
