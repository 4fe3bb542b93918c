package flags

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// WhenFlags define when a timer is due, in addition to its schedule. The tags are those of SpecFlags.
type WhenFlags struct {
	Timezone       string        `help:"Time zone of a cron expression, such as Europe/Stockholm; default UTC." placeholder:"ZONE"`
	Also           []string      `help:"A further schedule: due whenever any of them is; can be repeated." placeholder:"EXPR" sep:"none"`
	Except         []string      `help:"Times taken out: a date, a range with / between, or five cron fields; can be repeated." placeholder:"TIMES" sep:"none"`
	DST            string        `name:"dst" help:"Policy for local times that a clock change skips or repeats; default vixie, which is next,first." placeholder:"POLICY"`
	CalendarOff    []string      `help:"Exclude the days of this calendar, such as weekends; can be repeated." placeholder:"NAME" member:"calendar.off" show:"days off"`
	CalendarOnly   []string      `help:"Only the days of this calendar; can be repeated." placeholder:"NAME" member:"calendar.only" show:"days on"`
	CalendarShift  string        `help:"What becomes of an occurrence on a day that does not count: skip (the default), next or previous." placeholder:"POLICY" member:"calendar.shift" show:"shift"`
	Start          cli.Moment    `help:"Start of the schedule, and of intervals: nothing is due before." placeholder:"TIME"`
	End            cli.Moment    `help:"End of the schedule: nothing is due at this time or later." placeholder:"TIME"`
	TTL            time.Duration `name:"ttl" help:"The same, counted from creation." placeholder:"DURATION"`
	MaxOccurrences uint64        `help:"The schedule ends after so many occurrences." placeholder:"N" show:"at most"`
	Jitter         time.Duration `help:"Delay each occurrence by a part of this, which is the same for all attempts." placeholder:"DURATION"`
}

// WhenOf returns a spec that only defines when, and refuses invalid values.
func (f *WhenFlags) WhenOf(schedule string) (rouse.Spec, error) {
	o := api.When{Schedule: schedule}
	setMembers(f, &o)
	s, err := o.Parse()
	var faults rouse.Invalid
	faults.Add(err)
	s.Target = "stream:" // every spec needs a target; this one is not used
	faults.Add(s.Check())
	s.Target = ""
	return s, UseFlagNames(faults.Err())
}
