package foreign

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/rousehq/rouse"
)

var pgCronNotes = []string{
	"pg_cron runs a command in a database; rouse calls a target, which gets the row as JSON: {\"jobid\": …, \"command\": …, \"database\": …, \"username\": …}, and runs it.",
	"pg_cron does not know what it missed while the server was down; rouse fires the latest missed occurrence, late. Change it with misfire: skip.",
	"pg_cron reads times in cron.timezone, GMT by default; these timers in UTC unless --timezone is given. With cron.match_dom_and_dow a day has to match both day fields there: write such a schedule as spring:0 and the five fields.",
	"The jobs stay in pg_cron: cron.unschedule removes them there, or both run.",
}

// pgCronJob is a row of cron.job, as row_to_json prints it.
type pgCronJob struct {
	JobID    int64  `json:"jobid"`
	JobName  string `json:"jobname,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Command  string `json:"command"`
	Database string `json:"database"`
	Username string `json:"username,omitempty"`
	NodeName string `json:"nodename,omitempty"`
	NodePort int    `json:"nodeport,omitempty"`
	Active   *bool  `json:"active,omitempty"`
}

func readPgCron(in []byte, o *Options) ([]Entry, error) {
	rows, err := readObjects[json.RawMessage](in, "rows of cron.job, as docs/moving-in.md exports them")
	if err != nil {
		return nil, err
	}
	entries, jobs, named := make([]Entry, len(rows)), make([]pgCronJob, len(rows)), map[string]int{}
	for i, row := range rows {
		e := &entries[i]
		e.Line = i + 1
		if e.Err = e.readMembers(row, &jobs[i]); e.Err == nil {
			named[jobs[i].JobName]++
		}
	}
	for i := range jobs {
		if e, j := &entries[i], &jobs[i]; e.Err == nil {
			if e.Name = j.JobName; e.Name == "" {
				e.Name = fmt.Sprintf("job-%d", j.JobID)
			} else if named[e.Name] > 1 { // of two users
				e.Name = fmt.Sprintf("%s-%d", e.Name, j.JobID)
			}
			e.Err = j.fillPgCronEntry(e, o)
		}
	}
	return entries, nil
}

var pgCronInterval = regexp.MustCompile(`(?i)^\s*([1-9]|[1-5][0-9]) seconds?\s*$`)

func (j *pgCronJob) fillPgCronEntry(e *Entry, o *Options) (err error) {
	e.Paused = j.Active != nil && !*j.Active
	s, times := &e.Spec, strings.Join(strings.Fields(j.Schedule), " ")
	j.Schedule, j.Active = "", nil
	s.Payload, s.ContentType = encodePayload(j), "application/json"
	s.Timezone = o.Timezone
	f := strings.Fields(times)
	switch m := pgCronInterval.FindStringSubmatch(times); {
	case m != nil:
		s.Schedule, s.Timezone = "@every "+m[1]+"s", ""
	case times == "@reboot", times == "@restart":
		return rouse.Refuse("schedule", times, "is no time", "run the command when the server has started")
	case len(f) != 5 || f[2] != "$":
		s.Schedule = narrowSteps(times)
	default: // the last day of the month
		l := localTimes{seconds: 1, odd: [2]string{"L"}, either: f[4][0] != '*'}
		fields := cronFields("-", false, true)
		fields[4].hi = 7
		for _, i := range []int{0, 1, 3, 4} {
			if l.set[i], err = fields[i].parseSet(f[i]); err != nil {
				return err
			}
		}
		return l.putTimes(s)
	}
	return nil
}
