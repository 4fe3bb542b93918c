package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/internal/timers"
)

// operation is a bad value of an operation, in the forms that doors have. A door that cannot have it is left
// out.
type operation struct {
	what               string
	method, path, body string // of HTTP, below the namespace
	words              func(context.Context, *timers.Timers) error
	grpc               func(context.Context, *client.Client) error
	args               []string
	refusal
}

var (
	theTimer = rouse.Key{Namespace: "default", Name: "a"}
	badName  = rouse.Key{Namespace: "default", Name: " a"}
	long     = strings.Repeat("x", 257)
	spaced   = refusal{"name", "begins or ends with a space"}
	beyond   = rouse.MaxInstant + 1
)

func timerOf[T any](_ T, err error) error { return err }

// putLimit puts a limit over gRPC. Limits have no words of timers.
func putLimit(l rouse.Limit) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error { return timerOf(c.Limits().Put(ctx, l)) }
}

var operations = []operation{
	{what: "get", method: "GET", path: "timers/%20a", args: []string{"get", " a"}, refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Get(ctx, badName)) },
		grpc:  func(ctx context.Context, c *client.Client) error { return timerOf(c.Get(ctx, "default", " a")) }},
	{what: "delete", method: "DELETE", path: "timers/%20a", args: []string{"delete", " a"}, refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Delete(ctx, badName, 0)) },
		grpc:  func(ctx context.Context, c *client.Client) error { return timerOf(c.Delete(ctx, "default", " a")) }},
	{what: "any revision", method: "DELETE", path: "timers/a?expected_revision=18446744073709551615", refusal: refusal{"expected_revision", "is no revision"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Delete(ctx, theTimer, rouse.AnyRevision))
		}},
	{what: "resume", method: "POST", path: "timers/%20a:resume", args: []string{"resume", " a"}, refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Resume(ctx, badName)) },
		grpc:  func(ctx context.Context, c *client.Client) error { return timerOf(c.Resume(ctx, "default", " a")) }},
	{what: "run", method: "POST", path: "timers/%20a:run", args: []string{"run", " a"}, refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error { _, _, err := e.RunNow(ctx, badName); return err },
		grpc: func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Run(ctx, "default", " a")
			return err
		}},
	{what: "report on what is no check", method: "POST", path: "checks/a", args: []string{"report", "a"}, refusal: refusal{"name", "is no check"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.ReportCheck(ctx, theTimer, rouse.CheckReport{}))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.ReportCheck(ctx, "default", "a", rouse.CheckReport{}))
		}},
	{what: "long log of a report", method: "POST", path: "checks/a", body: `{"log":"` + strings.Repeat("x", rouse.MaxReportLog+1) + `"}`,
		refusal: refusal{"log", "has 10241 bytes"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.ReportCheck(ctx, theTimer, rouse.CheckReport{Log: strings.Repeat("x", rouse.MaxReportLog+1)}))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.ReportCheck(ctx, "default", "a", rouse.CheckReport{Log: strings.Repeat("x", rouse.MaxReportLog+1)}))
		}},
	{what: "reason of a pause", method: "POST", path: "timers/a:pause", body: `{"reason":"red \u0007"}`, args: []string{"pause", "a", "--reason", "red \a"},
		refusal: refusal{"reason", "contains the control character U+0007"},
		words:   func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Pause(ctx, theTimer, "red \a", 0)) },
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Pause(ctx, "default", "a", "red \a"))
		}},
	{what: "reason that is not UTF-8", refusal: refusal{"reason", "is not UTF-8"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Pause(ctx, theTimer, "red \xff", 0))
		}},
	{what: "long reason", method: "POST", path: "timers/a:pause", body: `{"reason":"` + long + `"}`, args: []string{"pause", "a", "--reason", long},
		refusal: refusal{"reason", "has 257 bytes, more than 256"},
		words:   func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Pause(ctx, theTimer, long, 0)) },
		grpc:    func(ctx context.Context, c *client.Client) error { return timerOf(c.Pause(ctx, "default", "a", long)) }},
	{what: "pause until the past", method: "POST", path: "timers/a:pause", body: `{"until":"2020-01-01T00:00:00Z"}`, args: []string{"pause", "a", "--until", "2020-01-01T00:00:00Z"},
		refusal: refusal{"until", "is not after now, "},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Pause(ctx, theTimer, "", rouse.At(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))))
		}},
	{what: "pause until never", refusal: refusal{"until", "lies outside the years 2000 to 9998"},
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Pause(ctx, theTimer, "", beyond)) },
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.PauseUntil(ctx, "default", "a", "", beyond))
		}},
	{what: "reason of a skip", method: "POST", path: "timers/a:skip", body: `{"reason":"\u0001"}`, args: []string{"skip", "a", "--reason", "\x01"},
		refusal: refusal{"reason", "contains the control character U+0001"},
		words:   func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Skip(ctx, theTimer, 1, "\x01")) },
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Skip(ctx, "default", "a", 1, "\x01"))
		}},
	{what: "many skips", method: "POST", path: "timers/a:skip", body: `{"count":10001}`, args: []string{"skip", "a", "--count", "10001"},
		refusal: refusal{"count", "is out of bounds"},
		words:   func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Skip(ctx, theTimer, 10001, "")) },
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Skip(ctx, "default", "a", 10001, ""))
		}},
	{what: "reschedule", method: "POST", path: "timers/a:reschedule", body: `{"schedule":"whenever"}`, args: []string{"reschedule", "a", "whenever"},
		refusal: refusal{"schedule", ""},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Reschedule(ctx, theTimer, rouse.Spec{Schedule: "whenever"}, 0, false))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Reschedule(ctx, "default", "a", rouse.Spec{Schedule: "whenever"}))
		}},
	{what: "patch", method: "PATCH", path: "timers/a", body: `{"schedule":"whenever"}`, args: []string{"edit", "a", "--schedule", "whenever"},
		refusal: refusal{"schedule", ""},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Patch(ctx, theTimer, timers.PatchRequest{Change: func(s rouse.Spec) (rouse.Spec, error) {
				s.Schedule = "whenever"
				return s, nil
			}}))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Patch(ctx, "default", "a", `{"schedule": "whenever"}`))
		}},
	{what: "backfill backwards", method: "POST", path: "timers/a:backfill", body: `{"from":"2021-01-01T00:00:00Z","until":"2020-01-01T00:00:00Z"}`,
		args: []string{"backfill", "a", "--from", "2021-01-01T00:00:00Z", "--until", "2020-01-01T00:00:00Z", "--dry-run"}, refusal: refusal{"until", "is not after from, "},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Backfill(ctx, theTimer, timers.BackfillRequest{From: rouse.MinInstant + 2, Until: rouse.MinInstant + 1, DryRun: true}))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Backfill(ctx, "default", "a", client.BackfillRequest{From: rouse.MinInstant + 2, Until: rouse.MinInstant + 1, DryRun: true}))
		}},
	{what: "explain", method: "GET", path: "timers/%20a:explain", args: []string{"explain", " a"}, refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Explain(ctx, badName, 0)) },
		grpc:  func(ctx context.Context, c *client.Client) error { return timerOf(c.Explain(ctx, "default", " a", 0)) }},
	{what: "redrive without a fire", refusal: refusal{"fire_id", "is missing"},
		words: func(ctx context.Context, e *timers.Timers) error { return timerOf(e.Redrive(ctx, theTimer, false)) },
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Redrive(ctx, "default", "a", "", false))
		}},
	{what: "redrive of no fire", method: "POST", path: "timers/a/dead/x:redrive", refusal: refusal{"fire_id", "is no fire id"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Redrive(ctx, rouse.Key{Namespace: "default", Name: "a", Fire: "x"}, false))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Redrive(ctx, "default", "a", "x", false))
		}},
	{what: "list by a bad prefix", method: "GET", path: "timers?prefix=%07", args: []string{"list", "--prefix", "\a"},
		refusal: refusal{"prefix", "contains the control character U+0007"},
		words: func(ctx context.Context, e *timers.Timers) error {
			_, _, err := e.List(ctx, rouse.Query{Prefix: "\a", Limit: 1})
			return err
		},
		grpc: func(ctx context.Context, c *client.Client) (err error) {
			for _, err = range c.List(ctx, rouse.Query{Namespace: "default", Prefix: "\a"}) {
			}
			return err
		}},
	{what: "count by a bad label", method: "GET", path: "timers:count?label=" + long + "%3Da", refusal: refusal{"label", "is a label that no timer can have"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Count(ctx, rouse.Query{Labels: map[string]string{long: "a"}}))
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Count(ctx, rouse.Query{Namespace: "default", Labels: map[string]string{long: "a"}}))
		}},
	{what: "records", refusal: spaced,
		words: func(ctx context.Context, e *timers.Timers) error {
			return timerOf(e.Records(ctx, rouse.RecordQuery{Namespace: "default", Name: " a", Limit: 1}))
		},
		grpc: func(ctx context.Context, c *client.Client) (err error) {
			for _, err = range c.Records(ctx, "default", " a") {
			}
			return err
		}},
	{what: "bulk with a reason that is lost", method: "POST", path: "timers:bulk", body: `{"filter":{},"action":"delete","reason":"x"}`,
		refusal: refusal{"reason", "does not go with delete"},
		words: func(ctx context.Context, e *timers.Timers) error {
			return e.Bulk(ctx, timers.BulkRequest{Query: rouse.Query{Namespace: "default"}, Action: "delete", Reason: "x"}, nil)
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Bulk(ctx, client.BulkRequest{Query: rouse.Query{Namespace: "default"}, Action: "delete", Reason: "x"}, nil))
		}},
	{what: "calendar of a hidden name", method: "PUT", path: "calendars/a%E2%80%8Bb", body: `{"days":[]}`, refusal: refusal{"name", "contains U+200B, which cannot be seen"},
		words: func(ctx context.Context, e *timers.Timers) error {
			_, _, err := e.PutCalendar(ctx, rouse.Calendar{Namespace: "default", Name: "a\u200bb"})
			return err
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.PutCalendar(ctx, "default", "a\u200bb", nil))
		}},
	{what: "calendar with a day twice", method: "PUT", path: "calendars/c", body: `{"days":[{"date":"2030-01-02"},{"date":"2030-01-01"},{"date":"2030-01-02"}]}`,
		refusal: refusal{"days[2].date", "is that of days[0], too"},
		words: func(ctx context.Context, e *timers.Timers) error {
			_, _, err := e.PutCalendar(ctx, rouse.Calendar{Namespace: "default", Name: "c", Days: []rouse.Day{{Date: 9}, {Date: 8}, {Date: 9}}})
			return err
		},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.PutCalendar(ctx, "default", "c", []rouse.Day{{Date: 9}, {Date: 8}, {Date: 9}}))
		}},
	{what: "no calendar", method: "DELETE", path: "calendars/a%20b", args: []string{"calendar", "delete", "a b"}, refusal: refusal{"name", "is no name of a calendar"},
		words: func(ctx context.Context, e *timers.Timers) error { return e.DeleteCalendar(ctx, "default", "a b") },
		grpc:  func(ctx context.Context, c *client.Client) error { return c.DeleteCalendar(ctx, "default", "a b") }},
	{what: "limit of a bad name", method: "PUT", path: "limits/A", body: `{"concurrency":1}`, args: []string{"limit", "set", "A", "--concurrency", "1"}, refusal: refusal{"name", "is no name of a limit"},
		grpc: putLimit(rouse.Limit{Name: "A", Concurrency: 1})},
	{what: "limit of too many", method: "PUT", path: "limits/l", body: `{"concurrency":1000001}`, args: []string{"limit", "set", "l", "--concurrency", "1000001"},
		refusal: refusal{"concurrency", "is out of bounds"}, grpc: putLimit(rouse.Limit{Name: "l", Concurrency: rouse.MaxConcurrency + 1})},
	{what: "limit of fewer than none", method: "PUT", path: "limits/l", body: `{"concurrency":-1}`, args: []string{"limit", "set", "l", "--concurrency=-1"},
		refusal: refusal{"concurrency", "is out of bounds"}, grpc: putLimit(rouse.Limit{Name: "l", Concurrency: -1})},
	{what: "limit of a short time", method: "PUT", path: "limits/l", body: `{"rate":{"count":1,"per":"1ms"}}`, args: []string{"limit", "set", "l", "--rate", "1/1ms"},
		refusal: refusal{"rate.per", "is out of bounds"}, grpc: putLimit(rouse.Limit{Name: "l", Rate: rouse.LimitRate{Count: 1, Per: time.Millisecond}})},
	{what: "limit of a rate without a number", method: "PUT", path: "limits/l", body: `{"rate":{"burst":2}}`, args: []string{"limit", "set", "l", "--burst", "2"},
		refusal: refusal{"rate.count", "is missing"}, grpc: putLimit(rouse.Limit{Name: "l", Rate: rouse.LimitRate{Burst: 2}})},
	{what: "limit of no order", method: "PUT", path: "limits/l", body: `{"concurrency":1,"order":"name"}`, args: []string{"limit", "set", "l", "--concurrency", "1", "--order", "name"},
		refusal: refusal{"order", "is no order"}, grpc: putLimit(rouse.Limit{Name: "l", Concurrency: 1, Order: "name"})},
	{what: "limit of a target by keys", method: "PUT", path: "limits/target%3Aa.example", body: `{"concurrency":1,"per_key":true}`,
		args:    []string{"limit", "set", "target:a.example", "--concurrency", "1", "--per-key"},
		refusal: refusal{"per_key", "does not go with a limit of a target"}, grpc: putLimit(rouse.Limit{Name: "target:a.example", Concurrency: 1, PerKey: true})},
	{what: "limit of a target in order", method: "PUT", path: "limits/target%3Aa.example%3A8443", body: `{"concurrency":1,"order":"due"}`,
		args:    []string{"limit", "set", "target:a.example:8443", "--concurrency", "1", "--order", "due"},
		refusal: refusal{"order", "does not go with a limit of a target"}, grpc: putLimit(rouse.Limit{Name: "target:a.example:8443", Concurrency: 1, Order: "due"})},
	{what: "pause of a limit of more than a host", method: "POST", path: "limits/target%3Aa.example%2Fb:pause", args: []string{"limit", "pause", "target:a.example/b"},
		refusal: refusal{"name", "is no host of callbacks"},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Limits().Pause(ctx, "default", "target:a.example/b"))
		}},
	{what: "pause of a limit of a bad name", method: "POST", path: "limits/A:pause", args: []string{"limit", "pause", "A"}, refusal: refusal{"name", "is no name of a limit"},
		grpc: func(ctx context.Context, c *client.Client) error {
			return timerOf(c.Limits().Pause(ctx, "default", "A"))
		}},
	{what: "delete of a limit of a bad name", method: "DELETE", path: "limits/A", args: []string{"limit", "delete", "A"}, refusal: refusal{"name", "is no name of a limit"},
		grpc: func(ctx context.Context, c *client.Client) error { return c.Limits().Delete(ctx, "default", "A") }},
}

// TestEveryOperationRefusesTheSameThroughEveryDoor puts bad values of operations through each door that can
// have them. Nothing changes.
func TestEveryOperationRefusesTheSameThroughEveryDoor(t *testing.T) {
	d := openDoors(t)
	was, err := d.n.Create(t.Context(), "a", rouse.Spec{Schedule: "@every 1h", Target: "https://example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		got := map[string]refusal{}
		if o.words != nil {
			got["library"] = judged(o.words(t.Context(), d.n.Timers()))
		}
		if o.grpc != nil {
			got["gRPC"] = judged(o.grpc(t.Context(), d.grpc))
		}
		if o.method != "" {
			var body any
			if o.body != "" {
				body = o.body
			}
			_, got["HTTP"] = d.ask(o.method, "/v1/namespaces/default/"+o.path, body)
		}
		if o.args != nil {
			got["command line"] = d.command("", o.args...)
		}
		for door, v := range got {
			if v.field != flags.FlagNames.Replace(o.field) || !strings.HasPrefix(v.wrong, o.wrong) {
				t.Errorf("%s through %s: %q %q, want %q %q", o.what, door, v.field, v.wrong, o.field, o.wrong)
			}
		}
	}
	if is, err := d.n.Get(t.Context(), "a"); err != nil || is.Revision != was.Revision {
		t.Errorf("it was changed: %+v, %v", is, err)
	}
}
