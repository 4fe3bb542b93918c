package rousev1

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// CalendarToProto returns the message of a calendar.
func CalendarToProto(c *rouse.Calendar) *Calendar {
	return &Calendar{Namespace: c.Namespace, Name: c.Name, Days: DaysToProto(c.Days), Revision: c.Revision,
		UpdatedMs: int64(c.Updated)}
}

// CalendarFromProto reads a calendar. Days that are no dates are refused with a *rouse.Invalid; the rest is
// for Calendar.Check.
func CalendarFromProto(p *Calendar) (rouse.Calendar, error) {
	if p == nil {
		return rouse.Calendar{}, rouse.Refuse("calendar", "", "is missing", "send one")
	}
	days, err := DaysFromProto(p.Days)
	if err != nil {
		return rouse.Calendar{}, err
	}
	return rouse.Calendar{Namespace: p.Namespace, Name: p.Name, Days: days, Revision: p.Revision,
		Updated: rouse.Instant(p.UpdatedMs)}, nil
}

// DaysToProto returns the messages of days.
func DaysToProto(days []rouse.Day) []*Day {
	if len(days) == 0 {
		return nil
	}
	out := make([]*Day, len(days))
	for i, d := range days {
		out[i] = &Day{Date: d.Date.String(), Text: d.Text}
	}
	return out
}

// DaysFromProto reads days, and refuses invalid dates with a *rouse.Invalid.
func DaysFromProto(list []*Day) ([]rouse.Day, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]rouse.Day, len(list))
	var faults rouse.Invalid
	for i, d := range list {
		date, err := rouse.ParseDate(d.GetDate())
		if err != nil {
			faults.Add(rouse.Refuse(fmt.Sprintf("days[%d].date", i), d.GetDate(), "is no date between the years 1970 and 9998",
				"give one such as 2027-12-24"))
			continue
		}
		out[i] = rouse.Day{Date: date, Text: d.GetText()}
	}
	return out, faults.Err()
}

// ComingToProto returns the message of a due time to come, of a schedule that is read in the zone; nil is
// UTC. Name and fire id are for the caller to add.
func ComingToProto(c *rouse.Coming, zone *time.Location) *Coming {
	return &Coming{DueMs: int64(c.Due), SentAtMs: int64(c.At), Local: Local(c.Due, zone), Mark: c.Mark}
}

// ComingFromProto reads a due time to come.
func ComingFromProto(p *Coming) rouse.Coming {
	return rouse.Coming{Due: rouse.Instant(p.GetDueMs()), At: rouse.Instant(p.GetSentAtMs()), Mark: p.GetMark()}
}

// Local returns an instant as RFC 3339 in a zone, with its offset; nil is UTC. Milliseconds are left out
// where there are none.
func Local(i rouse.Instant, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return i.Time().In(zone).Format("2006-01-02T15:04:05.999Z07:00")
}

// ForecastToProto returns the message of a forecast, with the token of the rest.
func ForecastToProto(f *rouse.Forecast, token string) *ForecastResponse {
	p := &ForecastResponse{FromMs: int64(f.From), Timers: f.Timers, Of: f.Of, NextPageToken: token}
	for _, l := range f.Loads {
		p.Loads = append(p.Loads, &Load{FromMs: int64(l.From), Key: l.Key, Count: l.Count})
	}
	return p
}

// ForecastFromProto returns the forecast of a message; its Next is not known.
func ForecastFromProto(p *ForecastResponse) rouse.Forecast {
	f := rouse.Forecast{From: rouse.Instant(p.GetFromMs()), Timers: p.GetTimers(), Of: p.GetOf()}
	for _, l := range p.GetLoads() {
		f.Loads = append(f.Loads, rouse.Load{From: rouse.Instant(l.GetFromMs()), Key: l.GetKey(), Count: l.GetCount()})
	}
	return f
}
