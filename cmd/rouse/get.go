package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// getCmd shows a timer.
type getCmd struct {
	Name string `arg:"" help:"Name of the timer."`
}

func (getCmd) Help() string {
	return `Examples:

    rouse get coffee
    rouse get coffee --json`
}

// Run shows the timer.
func (c *getCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		t, err := s.Get(ctx, a.cli.Namespace, c.Name)
		if err != nil {
			return named("timer", c.Name, err)
		}
		return a.showTimer(&t)
	})
}

// showTimer prints a timer or dead letter.
func (a *app) showTimer(t *rouse.Timer) error {
	return a.show(api.TimerOf(t), func() error {
		now := time.Now()
		state := t.State().String()
		var last string
		if t.Attempts > 0 {
			last = fmt.Sprintf("%d of %d", t.Attempts, t.Spec.Retry.Effective().Attempts)
		}
		due := when(t.Due, now)
		if t.Due == rouse.Never {
			due = "never: the schedule has ended"
		}
		retry := t.Spec.Retry.Effective()
		facts(a.out, a.style,
			"name", t.Key.Name, "namespace", t.Key.Namespace, "fire", t.Key.Fire, "state", state, "reason", t.Reason,
			"schedule", t.Spec.Schedule, "timezone", t.Spec.Timezone, "due", due, "visible", visible(t, now), "target", t.Spec.Target,
			"payload", payloadText(&t.Spec), "labels", labelText(t.Spec.Labels),
			"retry", fmt.Sprintf("%d attempts, %s doubling to %s, timeout %s", retry.Attempts, short(retry.Interval), short(retry.Max), short(retry.Timeout)),
			"misfire", t.Spec.Misfire.String(), "attempts", last, "last error", t.LastError, "runs", runText(t.Runs),
			"ended", fmt.Sprint(t.Ended), "created", when(t.Created, now), "updated", when(t.Updated, now),
			"generation", fmt.Sprint(t.Generation), "revision", fmt.Sprint(t.Revision))
		return nil
	})
}

// visible is told when it is not the due time: a retry, a report that is waited for.
func visible(t *rouse.Timer, now time.Time) string {
	if t.Visible == t.Due || t.Visible == rouse.Never || t.Visible == 0 {
		return ""
	}
	return when(t.Visible, now)
}

// payloadText shows the head of a payload.
func payloadText(s *rouse.Spec) string {
	if len(s.Payload) == 0 {
		return ""
	}
	kind := s.ContentType
	if kind == "" {
		kind = "application/octet-stream"
	}
	head := strings.ToValidUTF8(string(s.Payload[:min(len(s.Payload), 200)]), "\uFFFD")
	return fmt.Sprintf("%s (%s, %d bytes)", rouse.Shorten(head, 120), kind, len(s.Payload))
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, " ")
}

func runText(runs []rouse.Instant) string {
	var parts []string
	for _, r := range runs {
		parts = append(parts, stamp(r))
	}
	return strings.Join(parts, " ")
}
