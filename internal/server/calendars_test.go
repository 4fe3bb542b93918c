package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

const calendars = "/v1/namespaces/ns/calendars"

// parse reads lines of dates; a second event on a day is another line.
func parse(b []byte) (days []rouse.Day, warnings []string, err error) {
	for line := range strings.Lines(string(b)) {
		date, err := rouse.ParseDate(strings.TrimSpace(line))
		if err != nil {
			return nil, nil, errors.New("no date")
		}
		days = append(days, rouse.Day{Date: date, Text: fmt.Sprint("event ", len(days))})
	}
	return days, []string{"one repeats for ever"}, nil
}

func TestCalendars(t *testing.T) {
	f := newFake()
	h := handlerOf(Options{Timers: f, ParseCalendar: parse})
	w := do(h, "PUT", calendars+"/holidays", `{"days":[{"date":"2030-12-25"},{"date":"2030-12-24","text":"Christmas Eve"}]}`)
	want(t, w, 200)
	if got := decoded[api.CalendarPut](t, w); got.Days != 2 || got.Moved != 3 || got.Calendar.Name != "holidays" || got.Calendar.Revision != 1 || got.Calendar.Days != nil {
		t.Errorf("put %+v", got)
	}
	w = do(h, "GET", calendars+"/holidays", "")
	want(t, w, 200)
	if got := decoded[api.Calendar](t, w); fmt.Sprint(got.Days) != "[{2030-12-24 Christmas Eve} {2030-12-25 }]" || got.Updated.Instant() != epoch {
		t.Errorf("got %+v", got)
	}
	w = do(h, "PUT", calendars+"/events", "2030-05-02\n2030-05-01\n2030-05-02\n", "Content-Type", "text/calendar; charset=utf-8")
	want(t, w, 200)
	if got := decoded[api.CalendarPut](t, w); got.Days != 2 || len(got.Warnings) != 1 {
		t.Errorf("put %+v", got)
	}
	want(t, do(h, "PUT", calendars+"/used", `{"days":[]}`), 200)
	w = do(h, "GET", calendars, "")
	want(t, w, 200)
	if got := decoded[api.CalendarList](t, w); len(got.Calendars) != 3 || got.Calendars[0].Name != "events" || got.Calendars[0].Days != nil {
		t.Errorf("listed %+v", got)
	}
	if got := do(h, "GET", "/v1/namespaces/none/calendars", "").Body.String(); got != `{"calendars":[]}`+"\n" {
		t.Errorf("an empty list is %s", got)
	}
	want(t, do(h, "DELETE", calendars+"/used", ""), 409)
	want(t, do(h, "DELETE", calendars+"/events", ""), 204)
	want(t, do(h, "DELETE", calendars+"/events", ""), 404)
	want(t, do(h, "GET", calendars+"/events", ""), 404)

	// Calendars are no timers.
	for _, query := range []string{"", "?" + everyState, "?name=holidays"} {
		w := do(h, "GET", "/v1/namespaces/-/timers"+query, "")
		want(t, w, 200)
		if got := decoded[api.TimerList](t, w); len(got.Timers) != 0 {
			t.Errorf("%s lists %+v", query, got)
		}
	}
	for _, query := range []string{"?state=note", "?prefix=%01calendar/", "?name=%01calendar/holidays"} {
		if w := do(h, "GET", "/v1/namespaces/-/timers"+query, ""); w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d", query, w.Code)
		}
	}

	want(t, do(handler(f), "PUT", calendars+"/x", "2030-05-02", "Content-Type", "text/calendar"), 404)
	conn := serve(t, Options{Timers: f, ParseCalendar: parse}).dial()
	c, ctx := rousev1.NewCalendarsClient(conn), t.Context()
	put := must[*rousev1.PutCalendarResponse](t)
	if got := put(c.PutCalendar(ctx, &rousev1.PutCalendarRequest{Name: "a", Days: []*rousev1.Day{{Date: "2030-02-01"}, {Date: "2030-01-01"}}})); got.Days != 2 ||
		got.Moved != 3 || got.Calendar.Namespace != "default" || len(got.Calendar.Days) != 0 {
		t.Errorf("put %v", got)
	}
	if got := put(c.PutCalendar(ctx, &rousev1.PutCalendarRequest{Name: "b", Icalendar: []byte("2030-02-01")})); got.Days != 1 || len(got.Warnings) != 1 {
		t.Errorf("put %v", got)
	}
	if got := must[*rousev1.Calendar](t)(c.GetCalendar(ctx, &rousev1.GetCalendarRequest{Name: "a"})); len(got.Days) != 2 || got.Days[0].Date != "2030-01-01" {
		t.Errorf("got %v", got)
	}
	if got := must[*rousev1.ListCalendarsResponse](t)(c.ListCalendars(ctx, &rousev1.ListCalendarsRequest{})); len(got.Calendars) != 2 || len(got.Calendars[0].Days) != 0 {
		t.Errorf("listed %v", got)
	}
	must[*rousev1.DeleteCalendarResponse](t)(c.DeleteCalendar(ctx, &rousev1.DeleteCalendarRequest{Name: "a"}))
	_, err := c.GetCalendar(ctx, &rousev1.GetCalendarRequest{Name: "a"})
	wantCode(t, err, codes.NotFound)
	_, err = rousev1.NewCalendarsClient(serve(t, Options{Timers: f}).dial()).PutCalendar(ctx, &rousev1.PutCalendarRequest{Name: "b", Icalendar: []byte("2030-02-01")})
	wantCode(t, err, codes.Unimplemented)
}

// TestACalendarTellsItsJob: through both doors, unless all timers have moved.
func TestACalendarTellsItsJob(t *testing.T) {
	f := newFake()
	h := handler(f)
	c := rousev1.NewCalendarsClient(serve(t, Options{Timers: f}).dial())
	for name, job := range map[string]string{"done": "", "long": "calendar-long", "stuck": "calendar-stuck"} {
		w := do(h, "PUT", calendars+"/"+name, `{"days":[]}`)
		want(t, w, 200)
		if got := decoded[api.CalendarPut](t, w); got.Job != job || got.Moved != 3 {
			t.Errorf("%s: %+v", name, got)
		}
		if got := must[*rousev1.PutCalendarResponse](t)(c.PutCalendar(t.Context(), &rousev1.PutCalendarRequest{Name: name})); got.Job != job || got.Moved != 3 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCalendarAsLargeAsAny: the bound of bodies admits the largest valid calendar.
func TestCalendarAsLargeAsAny(t *testing.T) {
	f := newFake()
	var b strings.Builder
	text := strings.Repeat("x", rouse.MaxDayText)
	for i := range rouse.MaxDays {
		fmt.Fprintf(&b, `,{"date":%q,"text":%q}`, rouse.Date(i), text)
	}
	want(t, do(handler(f), "PUT", calendars+"/large", `{"days":[`+b.String()[1:]+`]}`), 200)
	w := do(handler(f), "PUT", calendars+"/larger", `{"days":[`+b.String()[1:]+`,{"date":"2200-01-01"}]}`)
	want(t, w, 422)
	if p := decoded[api.Problem](t, w); p.Errors[0].Field != "days" {
		t.Errorf("%+v", p)
	}
}
