package api

import (
	"fmt"

	"github.com/rousehq/rouse"
)

// Preview asks for the next times of a schedule.
type Preview struct {
	Name string `json:"name,omitzero" schema:"Name"` // by which H and jitter spread
	When
	From  Time   `json:"from,omitzero"`                                  // default now
	Count uint32 `json:"count,omitzero" schema:"maximum=1000,default=5"` // up to 1,000; default 5
}

// Next is the answer to Preview.
type Next struct {
	Next        []Time   `json:"next"`
	Occurrences []Coming `json:"occurrences"`    // the same with more of each
	Words       string   `json:"words,omitzero"` // the schedule in English
	Timezone    string   `json:"timezone,omitzero"`
}

// Coming is an occurrence that may come.
type Coming struct {
	Due    Time   `json:"due"`
	SentAt Time   `json:"sent_at"`                          // later than due by the jitter
	Local  string `json:"local" schema:"format=date-time"`  // the due time in the schedule's zone
	Mark   string `json:"mark,omitzero"`                    // what is odd of it, such as a clock change
	Name   string `json:"name,omitzero" schema:"Name"`      // of the timer, where several are meant
	FireID string `json:"fire_id,omitzero" schema:"FireID"` // of the timer that is there now

	Namespace string `json:"namespace,omitzero"` // of the timer, where several are meant
}

// ComingOf returns the JSON form of an occurrence that may come, with its due time in the schedule's zone as
// a text.
func ComingOf(c *rouse.Coming, local string) Coming {
	return Coming{Due: TimeOf(c.Due), SentAt: TimeOf(c.At), Local: local, Mark: c.Mark}
}

// Explanation is why a timer did or did not fire, and what comes next.
type Explanation struct {
	Summary string   `json:"summary"`        // one sentence
	Reasons []Reason `json:"reasons"`        // the most important first
	Timer   *Timer   `json:"timer,omitzero"` // left out: there is none of this name
	Words   string   `json:"words,omitzero"` // the schedule in English
	Records []Record `json:"records"`        // the latest, newest first
	Next    []Coming `json:"next"`
}

// Reason is one fact of an explanation.
type Reason struct {
	// such as paused, retrying, obstacle, missed, skipped or ended
	Code  string `json:"code" schema:"examples=paused|retrying|obstacle|missed|skipped|ended"`
	Text  string `json:"text"`
	At    Time   `json:"at,omitzero"`    // when it happened, or will; left out: now
	Since Time   `json:"since,omitzero"` // when it began to hold; left out: not known, or it has no beginning
	Until Time   `json:"until,omitzero"` // when it ends or ended; left out: not known, or it has no end
	Cure  string `json:"cure,omitzero"`  // what to do about it; left out: nothing, or it is not known
}

// Filter selects timers: those that match every member that is given.
type Filter struct {
	Prefix string `json:"prefix,omitzero" schema:"maxLength=256"` // of the name
	Name   string `json:"name,omitzero" schema:"Name"`
	// any of these; with bulk, of those that its action is for
	States   []string          `json:"states,omitempty" schema:"items=State"`
	Labels   map[string]string `json:"labels,omitzero" schema:"maxProperties=32,values.maxLength=256"`
	DueFrom  Time              `json:"due_from,omitzero"`
	DueUntil Time              `json:"due_until,omitzero"`
	// in the name, the error or the payload, without regard to case
	Text string `json:"text,omitzero" schema:"maxLength=256"`
	// exactly, or its beginning with a "*" after it
	Target string `json:"target,omitzero" schema:"maxLength=2048"`
	Code   int    `json:"code,omitzero"` // of the last attempt
}

// Parse returns the filter in the words of rouse; the namespace is not part of it. It refuses unknown states
// with a *rouse.Invalid.
func (o *Filter) Parse() (rouse.Query, error) {
	q := rouse.Query{Prefix: o.Prefix, Name: o.Name, Labels: o.Labels, DueFrom: o.DueFrom.Instant(),
		DueUntil: o.DueUntil.Instant(),
		Sought:   rouse.Sought{Text: o.Text, Target: o.Target, Code: o.Code}}
	for i, name := range o.States {
		s, err := rouse.ParseState(name)
		if err != nil {
			return q, rouse.Refuse(fmt.Sprintf("states[%d]", i), name, "is no state",
				"give one of scheduled, retrying, accepted, paused, ended, firing, dead")
		}
		q.States = append(q.States, s)
	}
	return q, nil
}

// Simulate asks what would fire in a range of time.
type Simulate struct {
	Filter *Filter `json:"filter,omitzero"`                                    // default all timers
	From   Time    `json:"from,omitzero"`                                      // default now
	Until  Time    `json:"until"`                                              // exclusive
	Limit  uint32  `json:"limit,omitzero" schema:"maximum=10000,default=1000"` // up to 10,000; default 1,000
}

// AskForecast asks how many occurrences come due in each step of a range of time.
type AskForecast struct {
	Filter *Filter  `json:"filter,omitzero"` // default all timers
	From   Time     `json:"from,omitzero"`   // default now
	Until  Time     `json:"until"`           // exclusive
	Step   Duration `json:"step,omitzero"`   // default 1h; the range has at most 10,080
	// divides the counts; the range then has at most 1,000 steps
	By        string `json:"by,omitzero" schema:"enum=namespace|target"`
	PageToken string `json:"page_token,omitzero"`
}

// Forecast is the answer to AskForecast.
type Forecast struct {
	From Time `json:"from"` // where the range begins
	// in the order of time; a step in which nothing comes due has none
	Loads  []Load `json:"loads"`
	Timers int64  `json:"timers"` // that were read
	// if there is more: how many timers match at most; left out: not known
	Of int64 `json:"of,omitzero"`
	// the bound was reached, and the other timers can be counted with it
	NextPageToken string `json:"next_page_token,omitzero"`
}

// Load is how many occurrences come due in a step of time.
type Load struct {
	From  Time   `json:"from"`         // a multiple of the step since 1970, in UTC
	Key   string `json:"key,omitzero"` // with by: the namespace or target; left out for those beyond the first 50
	Count int64  `json:"count"`
}

// ForecastOf returns the JSON form of a forecast.
func ForecastOf(f *rouse.Forecast, token string) Forecast {
	out := Forecast{From: TimeOf(f.From), Loads: make([]Load, len(f.Loads)), Timers: f.Timers, Of: f.Of,
		NextPageToken: token}
	for i, l := range f.Loads {
		out.Loads[i] = Load{TimeOf(l.From), l.Key, l.Count}
	}
	return out
}

// Simulated is the answer to Simulate.
type Simulated struct {
	Fires  []Coming `json:"fires"`         // in the order of time
	Timers uint64   `json:"timers"`        // that were looked at
	More   bool     `json:"more,omitzero"` // the limit ended the list
}
