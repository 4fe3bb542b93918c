package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// TargetsCmd lists targets.
type TargetsCmd struct {
	cli.WatchFlag `embed:""`
	Target        string `arg:"" optional:"" help:"Name of one target, such as https://example.com."`
	Of            string `help:"Only targets of this namespace." placeholder:"NAMESPACE"`
	Limit         uint32 `help:"Maximum number of targets." default:"100"`
	Nodes         bool   `help:"Show what each node does, too."`
}

func (TargetsCmd) Help() string {
	return `A target is the scheme and host of callbacks, a channel, or a place of a broker; an address of callbacks is one, too, while its circuit is
not closed. Those with trouble come first: an open circuit, failures, fires that wait. Fires, failures and lags are of the current minute and the four before.

Examples:

    rouse targets
    rouse targets https://example.com --nodes
    rouse targets --of billing --json`
}

// Run lists them.
func (c *TargetsCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		got, err := s.Status().Targets(ctx, client.TargetQuery{Namespace: c.Of, Name: c.Target, Limit: c.Limit})
		if err != nil {
			return err
		}
		a.NotAnswered(got.Nodes)
		t := cli.NewTable(a, "NAMESPACE", "TARGET", "NODE", "CIRCUIT", "QUEUED", "IN FLIGHT", "LIMIT", "FIRES", "OK",
			"FAILED",
			"LAG P50", "P99")
		for i := range got.Targets {
			if a.Flags.JSON {
				err = a.PrintJSON(api.TargetOf(&got.Targets[i]))
			} else {
				err = c.addTargetRows(a, t, &got.Targets[i])
			}
			if err != nil {
				return err
			}
		}
		if got.More {
			a.PrintNote("there are more targets: give --of, a target or a higher --limit")
		}
		return t.FlushTable()
	})
}

func (c *TargetsCmd) addTargetRows(a *cli.App, t *cli.Table, of *rouse.TargetStatus) error {
	circuit := of.Circuit
	if of.Since != 0 {
		circuit += " " + cli.RoughDuration(a.ServerTime().Sub(of.Since.Time()))
	}
	if err := t.AddTableRow(of.Namespace, of.Name, cli.OrDash(of.Node), circuit, fmt.Sprint(of.Queued),
		fmt.Sprint(of.InFlight), fmt.Sprint(of.Limit), fmt.Sprint(of.Sent),
		fmt.Sprint(of.Succeeded), fmt.Sprint(of.Failed), lagText(&of.Lags, 0.5), lagText(&of.Lags, 0.99)); err != nil ||
		!c.Nodes {
		return err
	}
	for i := range of.Nodes {
		if err := c.addTargetRows(a, t, &of.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// lagText shows the bound that a part of the lags does not exceed.
func lagText(l *rouse.Lags, part float64) string {
	d := l.Quantile(part)
	if d == 0 {
		return "-"
	}
	return "≤" + d.String()
}

// StatsCmd shows counts of recent fires.
type StatsCmd struct {
	cli.WatchFlag `embed:""`
	Window        time.Duration `help:"How far back, up to 24h." default:"10m"`
}

func (StatsCmd) Help() string {
	return `Of all nodes together, by steps of 5 s, or of 1 min for more than an hour. Nodes keep this in memory: one that starts begins with nothing.

Examples:

    rouse stats
    rouse stats --window 24h --json`
}

// Run shows it.
func (c *StatsCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		got, err := s.Status().Stats(ctx, c.Window)
		if err != nil {
			return err
		}
		a.NotAnswered(got.Nodes)
		t := cli.NewTable(a, "TIME", "FIRES", "OK", "FAILED", "CREATES", "PENDING", "LAG P50", "P99")
		for i := range got.Points {
			p := &got.Points[i]
			if a.Flags.JSON {
				err = a.PrintJSON(api.StatsPointOf(p))
			} else {
				pending := "-"
				if p.Pending >= 0 {
					pending = fmt.Sprint(p.Pending)
				}
				err = t.AddTableRow(cli.FormatRFC3339(p.At), fmt.Sprint(p.Fires), fmt.Sprint(p.Succeeded), fmt.Sprint(p.Failed),
					fmt.Sprint(p.Creates), pending,
					lagText(&p.Lags, 0.5), lagText(&p.Lags, 0.99))
			}
			if err != nil {
				return err
			}
		}
		return t.FlushTable()
	})
}

// BucketsCmd lists buckets.
type BucketsCmd struct {
	cli.WatchFlag `embed:""`
	Timer         string `arg:"" optional:"" help:"Name of a timer: its bucket only."`
}

func (BucketsCmd) Help() string {
	return `With the strategy bucket, each bucket of the timers has a lease; the node with the lease sends its fires. The epoch grows when another
node takes it. With the name of a timer it shows which node fires that.

Examples:

    rouse buckets
    rouse buckets coffee --namespace billing
    rouse buckets --json`
}

// Run lists them.
func (c *BucketsCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		ask := s.Status().Buckets
		if c.Timer != "" {
			ask = func(ctx context.Context) ([]rouse.BucketStatus, error) {
				return s.Status().BucketOf(ctx, a.Flags.Namespace, c.Timer)
			}
		}
		list, err := ask(ctx)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "BUCKET", "NODE", "EPOCH", "LEASE ENDS", "FIRES/S")
		for i := range list {
			b := &list[i]
			if a.Flags.JSON {
				err = a.PrintJSON(api.BucketOf(b))
			} else {
				ends := "-"
				if b.Until != 0 {
					ends = cli.FormatRFC3339(b.Until)
				}
				err = t.AddTableRow(fmt.Sprint(b.Bucket), cli.OrDash(b.Node), fmt.Sprint(b.Epoch), ends,
					fmt.Sprintf("%.1f", b.PerSecond))
			}
			if err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("the nodes do not share buckets: each timer is claimed by itself")
		}
		return t.FlushTable()
	})
}
