package main

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
)

// remindersCmd shows the table of the reminder service.
type remindersCmd struct {
	App       string `arg:"" optional:"" help:"Only buckets and sidecars of this app."`
	Instances bool   `help:"List the instances of the service, with their load."`
	Sidecars  bool   `help:"List the sidecars, and which instances they are connected to."`
}

func (remindersCmd) Help() string {
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
func (c *remindersCmd) Run(a *app) error {
	if c.Instances && c.Sidecars {
		return &usage{text: "--instances and --sidecars are two lists: give one of them"}
	}
	d, err := c.describeTable(a)
	if err != nil {
		return err
	}
	switch {
	case a.flags.JSON:
		text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(d)
		if err != nil {
			return err
		}
		return a.printJSON(json.RawMessage(text))
	case c.Instances:
		t := newTable(a, "INSTANCE", "NODE", "LEADER", "LOAD")
		for _, i := range d.GetTable().GetInstances() {
			leader := ""
			if i.Leader {
				leader = "yes"
			}
			if err := t.addTableRow(i.Address, orDash(i.Node), orDash(leader), fmt.Sprintf("%.2f", i.LoadFactor)); err != nil {
				return err
			}
		}
		return t.flushTable()
	case c.Sidecars:
		t := newTable(a, "APP", "SIDECAR", "INSTANCES")
		for _, s := range d.Sidecars {
			if err := t.addTableRow(s.AppId, s.Address, strings.Join(s.Instances, ",")); err != nil {
				return err
			}
		}
		return t.flushTable()
	}
	t := newTable(a, "BUCKET", "APP", "TOKENS", "GIVEN", "STATE", "SIDECAR", "INSTANCE")
	for _, b := range d.GetTable().GetInstanceSync() {
		state := strings.ToLower(strings.TrimPrefix(b.State.String(), "TOKEN_BUCKET_STATE_"))
		if err := t.addTableRow(b.TokenBucketId, b.AppId, fmt.Sprintf("%d-%d", b.RangeFrom, b.RangeTo),
			fmt.Sprint(b.ConsumedTill), state, orDash(b.SidecarInstance), orDash(b.RemSerInstance)); err != nil {
			return err
		}
	}
	return t.flushTable()
}

// describeTable tries the servers of --server in turn until one answers.
func (c *remindersCmd) describeTable(a *app) (*reminderv1.DescribeTableResponse, error) {
	a.dialled = a.flags.Server
	a.dialled = cmp.Or(a.dialled, defaultServer)
	ctx, cancel := context.WithTimeout(a.ctx, a.flags.Timeout)
	defer cancel()
	var errs []error
	for address := range strings.SplitSeq(a.dialled, ",") {
		conn, err := grpc.NewClient(strings.TrimPrefix(strings.TrimSpace(address), "http://"),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, &usage{text: "server: " + err.Error()}
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
