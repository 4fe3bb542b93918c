package timer

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/internal/setting"
)

// GetCmd shows a timer.
type GetCmd struct {
	cli.WatchFlag `embed:""`

	Name string `arg:"" help:"Name of the timer."`
}

func (GetCmd) Help() string {
	return `Examples:

    rouse get coffee
    rouse get coffee --json`
}

// Run shows the timer.
func (c *GetCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.Get(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return showTimer(a, &t)
	})
}

// showTimer prints a timer or dead letter.
func showTimer(a *cli.App, t *rouse.Timer) error {
	return a.ShowValue(api.TimerOf(t), func() error {
		now := a.ServerTime()
		retry := t.Spec.Retry.Effective()
		last := ""
		if t.Attempts > 0 {
			last = fmt.Sprintf("%d of %d", t.Attempts, retry.Attempts)
		}
		due := whenDue(t, now)
		if t.Due == rouse.Never {
			due = "never: the schedule has ended"
		}
		pairs := []string{"name", t.Key.Name, "namespace", t.Key.Namespace, "fire", t.Key.Fire, "state", t.State().String(),
			"paused by", pausedBy(t), "reason", t.Reason,
			"paused until", whenText(t.Until, now)}
		pairs = append(pairs, "due", due, "sent", sentAt(t, now), "visible", visibilityText(t, now), "skips",
			countText(uint64(t.Skips)))
		pairs = append(pairs, specFacts(&t.Spec)...)
		cli.PrintFacts(a.Out, a.Style, append(pairs, "attempts", last, "last error", t.LastError, "failures",
			failureText(t.Failures), "runs", runText(t.Runs),
			"waited for", waitText(t.Waits), "ended", endedText(t), "created", cli.FormatWithRelative(t.Created, now), "updated",
			cli.FormatWithRelative(t.Updated, now),
			"generation", fmt.Sprint(t.Generation), "revision", fmt.Sprint(t.Revision))...)
		return nil
	})
}

// pausedBy is why a timer was paused without a request.
func pausedBy(t *rouse.Timer) string {
	if !t.Paused || t.PauseCause == rouse.PauseRequested {
		return ""
	}
	return t.PauseCause.String()
}

// endedText is how many occurrences have ended, by outcome.
func endedText(t *rouse.Timer) string {
	text := fmt.Sprint(t.Ended)
	var how []string
	for _, c := range []struct {
		name string
		n    uint64
	}{{"fired", t.Fired}, {"dead", t.Dead}, {"missed", t.Missed}} {
		if c.n > 0 {
			how = append(how, fmt.Sprint(c.n, " ", c.name))
		}
	}
	if len(how) > 0 {
		text += " (" + strings.Join(how, ", ") + ")"
	}
	return text
}

// waitText returns the causes that the next occurrence waits for.
func waitText(waits []rouse.Wait) string {
	list := make([]string, len(waits))
	for i, w := range waits {
		list[i] = fmt.Sprintf("%s until %s", w.Cause, cli.FormatRFC3339(w.To))
	}
	return strings.Join(list, ", ")
}

// specFacts are the parts of a spec.
func specFacts(s *rouse.Spec) []string {
	o := api.SpecOf(s)
	return flags.ShownMembers(reflect.TypeFor[flags.SpecFlags](), &o,
		map[string]string{"payload": payloadText(s), "misfire": s.MisfireText(),
			"retry-attempts": retryText(s.Retry.Effective())})
}

func retryText(r rouse.Retry) string {
	grows := fmt.Sprintf("times %g to %s", r.Factor, setting.Short(r.Max))
	switch r.Factor {
	case 1:
		grows = "each"
	case 2:
		grows = "doubling to " + setting.Short(r.Max)
	}
	text := fmt.Sprintf("%d attempts, %s %s, timeout %s", r.Attempts, setting.Short(r.Interval), grows,
		setting.Short(r.Timeout))
	if r.GiveUp > 0 {
		text += ", none after " + setting.Short(r.GiveUp)
	}
	return text
}

// Defaults are omitted.

func countText(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func whenText(i rouse.Instant, now time.Time) string {
	if i == 0 {
		return ""
	}
	return cli.FormatWithRelative(i, now)
}

// sentAt is shown if jitter moves it.
func sentAt(t *rouse.Timer, now time.Time) string {
	if t.Due == rouse.Never || t.SentAt(t.Due) == t.Due {
		return ""
	}
	return cli.FormatWithRelative(t.SentAt(t.Due), now)
}

func failureText(failures []rouse.Attempt) string {
	var parts []string
	for _, f := range failures {
		if f.Sent == 0 { // it was accepted, and nothing was reported of it
			parts = append(parts, rouse.Shorten(f.Detail, 80))
			continue
		}
		parts = append(parts, cli.FormatRFC3339(f.Sent)+" "+rouse.Shorten(strings.TrimSpace(fmt.Sprintf("%s (%s)", f.Detail,
			cli.RoughDuration(f.Took))), 80))
	}
	return strings.Join(parts, " · ")
}

// visibilityText is shown if it is not the due time: for a retry or an awaited report.
func visibilityText(t *rouse.Timer, now time.Time) string {
	if t.Visible == t.Due || t.Visible == rouse.Never || t.Visible == 0 {
		return ""
	}
	return cli.FormatWithRelative(t.Visible, now)
}

// payloadText shows the beginning of a payload.
func payloadText(s *rouse.Spec) string {
	if len(s.Payload) == 0 {
		return ""
	}
	kind := s.ContentType
	kind = cmp.Or(kind, "application/octet-stream")
	head := strings.ToValidUTF8(string(s.Payload[:min(len(s.Payload), 200)]), "\uFFFD")
	return fmt.Sprintf("%s (%s, %d bytes)", rouse.Shorten(head, 120), kind, len(s.Payload))
}

func runText(runs []rouse.Instant) string {
	var parts []string
	for _, r := range runs {
		parts = append(parts, cli.FormatRFC3339(r))
	}
	return strings.Join(parts, " ")
}
