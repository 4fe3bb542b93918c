package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// RemindersCmd shows the table of the reminder service.
type RemindersCmd struct {
	App       string `arg:"" optional:"" help:"Only buckets and sidecars of this app."`
	Instances bool   `help:"List the instances of the service, with their load."`
	Sidecars  bool   `help:"List the sidecars, and which instances they are connected to."`
}

func (RemindersCmd) Help() string {
	return `Shows who deals with which bucket of tokens: the sidecar that executes the reminders of a bucket, and the instance that gives out its
tokens. A bucket without a sidecar has none of its app connected. GIVEN is the last token that was given out, as of the last time that
it was written down. Reminders themselves are timers, in the namespace reminders.

Examples:

    rouse reminders
    rouse reminders orderapp --sidecars
    rouse reminders --instances
    rouse reminders --json
    rouse list --namespace reminders`
}

// Run shows it.
func (c *RemindersCmd) Run(a *cli.App) error {
	if c.Instances && c.Sidecars {
		return &cli.Usage{Text: "--instances and --sidecars are two lists: give one of them"}
	}
	d, err := c.describeTable(a)
	if err != nil {
		return err
	}
	switch {
	case a.Flags.JSON:
		text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(d)
		if err != nil {
			return err
		}
		return a.PrintJSON(json.RawMessage(text))
	case c.Instances:
		t := cli.NewTable(a, "INSTANCE", "NODE", "LEADER", "LOAD")
		for _, i := range d.GetTable().GetInstances() {
			leader := ""
			if i.Leader {
				leader = "yes"
			}
			if err := t.AddTableRow(i.Address, cli.OrDash(i.Node), cli.OrDash(leader),
				fmt.Sprintf("%.2f", i.LoadFactor)); err != nil {
				return err
			}
		}
		return t.FlushTable()
	case c.Sidecars:
		t := cli.NewTable(a, "APP", "SIDECAR", "INSTANCES")
		for _, s := range d.Sidecars {
			if err := t.AddTableRow(s.AppId, s.Address, strings.Join(s.Instances, ",")); err != nil {
				return err
			}
		}
		return t.FlushTable()
	}
	t := cli.NewTable(a, "BUCKET", "APP", "TOKENS", "GIVEN", "STATE", "SIDECAR", "INSTANCE")
	for _, b := range d.GetTable().GetInstanceSync() {
		state := strings.ToLower(strings.TrimPrefix(b.State.String(), "TOKEN_BUCKET_STATE_"))
		if err := t.AddTableRow(b.TokenBucketId, b.AppId, fmt.Sprintf("%d-%d", b.RangeFrom, b.RangeTo),
			fmt.Sprint(b.ConsumedTill), state, cli.OrDash(b.SidecarInstance), cli.OrDash(b.RemSerInstance)); err != nil {
			return err
		}
	}
	return t.FlushTable()
}

// describeTable tries the servers of --server in turn until one answers.
func (c *RemindersCmd) describeTable(a *cli.App) (*reminderv1.DescribeTableResponse, error) {
	a.Dialled = a.Flags.Server
	a.Dialled = cmp.Or(a.Dialled, cli.DefaultServer)
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	var errs []error
	for address := range strings.SplitSeq(a.Dialled, ",") {
		conn, err := grpc.NewClient(strings.TrimPrefix(strings.TrimSpace(address), "http://"),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, &cli.Usage{Text: "server: " + err.Error()}
		}
		d, err := reminderv1.NewReminderServiceClient(conn).DescribeTable(ctx, &reminderv1.DescribeTableRequest{AppId: c.App})
		conn.Close()
		if err == nil {
			return d, nil
		}
		if status.Code(err) == codes.Unimplemented {
			return nil, rouse.Refuse("server", address, "does not serve reminders",
				"start it with --reminders, or give another one")
		}
		errs = append(errs, rousev1.StatusToError(status.Convert(err)))
	}
	return nil, errors.Join(errs...)
}
