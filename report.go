package rouse

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CheckTarget is the target of a check: a timer whose work runs elsewhere, such as in the cron of another
// machine, and reports how it ended. Its schedule is when a report is expected, and Spec.Expect by when. It
// is never sent, so its row needs no attention unless a pause ends.
const CheckTarget = "check:"

// IsCheck reports whether the timer is a check.
func (s *Spec) IsCheck() bool { return s.Target == CheckTarget }

// RefuseCheck refuses an operation that sends occurrences, or skips those that would be sent, if the timer is
// a check.
func (t *Timer) RefuseCheck() error {
	if !t.Spec.IsCheck() {
		return nil
	}
	return Refuse("name", t.Key.Name, "is a check, which is never sent", "report to it instead: rouse report")
}

// ReportStatus is how far the work of a check is.
type ReportStatus uint8

// The statuses.
const (
	ReportSuccess ReportStatus = iota // it has succeeded
	ReportStart                       // it begins
	ReportFail                        // it has failed
)

var reportStatusNames = [...]string{ReportSuccess: "success", ReportStart: "start", ReportFail: "fail"}

func (s ReportStatus) String() string {
	if int(s) >= len(reportStatusNames) {
		return "unknown"
	}
	return reportStatusNames[s]
}

// ParseReportStatus reads the name of a status; an empty one is ReportSuccess.
func ParseReportStatus(name string) (ReportStatus, error) {
	if name == "" {
		return ReportSuccess, nil
	}
	if i := slices.Index(reportStatusNames[:], name); i >= 0 {
		return ReportStatus(i), nil
	}
	return 0, Refuse("status", name, "is no status of a report", "give start, success or fail")
}

// CheckReport is a report of the work of a check.
type CheckReport struct {
	Status ReportStatus
	Log    string // its output, at most MaxReportLog bytes; the record has the head of it
}

// MaxReportLog bounds the log of a report, in bytes.
const MaxReportLog = 10 << 10

// Check refuses a report with too long a log.
func (r *CheckReport) Check() error {
	if n := len(r.Log); n > MaxReportLog {
		return Refuse("log", "", "has "+strconv.Itoa(n)+" bytes", fmt.Sprintf("send the last %d", MaxReportLog))
	}
	return nil
}

// TakeReport returns the step of a check whose work is reported on at now; s is its schedule. A success ends
// its being overdue, and moves it to the next time of the schedule after now. Each end is on record as a run
// that was due when its work began, or when it was reported if no start was. It refuses timers that are no
// checks.
func (t *Timer) TakeReport(r CheckReport, now Instant, s Schedule) (Step, error) {
	if !t.Spec.IsCheck() {
		return Step{}, Refuse("name", t.Key.Name, "is no check", "report to timers with the target "+CheckTarget)
	}
	to := *t
	at := max(now, t.Updated+1) // as a run does: no other report has this time
	to.Updated = at
	o := Outcome{Detail: strings.TrimSpace(r.Log)}
	if r.Log != "" {
		to.Answer = &Answer{ContentType: "text/plain; charset=utf-8", Payload: []byte(r.Log)}
		o.Answer = to.Answer
	} else if r.Status != ReportStart {
		to.Answer = nil
	}
	if r.Status == ReportStart {
		to.Began = at
		return Step{To: &to}, nil
	}
	occ := Occurrence{Due: cmp.Or(t.Began, at), Manual: true, Attempt: 1}
	to.Began = 0
	to.Ended++
	if r.Status == ReportFail {
		to.Dead++
		to.LastError = cleanDetail(o)
		return Step{To: &to, Log: []Record{t.newRecord(occ, EndDead, CauseReported, o, 0, at)}}, nil
	}
	to.Fired++
	var success Step
	success.addSuccess(&to, now)
	to.LastError = ""
	w := walk{t: &to, now: now, s: s}
	to.Due = w.dueAfter(now, to.Passed)
	step := w.stepToWaiting([]Record{t.newRecord(occ, EndFired, CauseReported, o, 0, at)})
	step.Also, step.Expected = success.Also, success.Expected
	return step, nil
}

// MissReport counts that a check has become overdue at now because no success was reported, and returns its
// record. LateAt was called.
func (t *Timer) MissReport(now Instant) Record {
	t.Ended++
	t.Missed++
	r := t.newRecord(Occurrence{Due: t.Overdue}, EndMissed, CauseNotReported,
		Outcome{Detail: "no success was reported in time"}, 0, now)
	r.Began = 0 // its work may go on
	return r
}
