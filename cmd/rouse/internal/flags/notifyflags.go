package flags

import (
	"time"

	"github.com/rousehq/rouse"
)

// NotifyFlags define which notices are sent, and how, of a timer or of a rule of a namespace. The tags are
// those of SpecFlags.
type NotifyFlags struct {
	Events []string      `help:"Events that it is told of: overdue, recovered, dead, missed, late, paused; default all." placeholder:"EVENT" member:"notify.events" show:"notices of"`
	Late   time.Duration `help:"Occurrences that begin later than this are an event, too." placeholder:"DURATION" member:"notify.late" show:"notices of later than"`
	After  uint32        `help:"Number of dead letters in a row from which on it is told of them; default 1." placeholder:"N" member:"notify.after" show:"notices after,%s dead letters in a row"`
	Every  time.Duration `help:"At most one notice of a timer in so long a time, with the number of events." placeholder:"DURATION" member:"notify.every" show:"notices every"`
	Format string        `help:"Format of notices: slack, discord or teams; default all members as JSON." placeholder:"FORMAT" member:"notify.format" show:"-"`
}

// NotifyOf returns who is told, with a target.
func (f *NotifyFlags) NotifyOf(target string) rouse.Notify {
	return rouse.Notify{Target: target, Events: f.Events, Late: f.Late, After: f.After, Every: f.Every, Format: f.Format}
}
