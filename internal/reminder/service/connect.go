package service

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/call"
)

// RegisterSidecar gives a sidecar's app its prefix.
func (f *sidecarServer) RegisterSidecar(ctx context.Context,
	r *reminderv1.RegisterSidecarRequest) (*reminderv1.RegisterSidecarResponse, error) {
	who := caller{r.AppId, r.Address}
	if err := who.checkCaller(""); err != nil {
		return nil, err
	}
	if err := f.requireApp(ctx, who.app); err != nil {
		return nil, err
	}
	prefix, err := f.appPrefix(ctx, who.app)
	if err != nil {
		return nil, err
	}
	f.callers.noteCaller(ctx, who)
	res := &reminderv1.RegisterSidecarResponse{TokenBucketPrefix: prefix,
		Heartbeat: durationpb.New(f.opts.Calls.Heartbeat())}
	for _, i := range f.knownInstances() {
		res.Instances = append(res.Instances, i.Address)
	}
	return res, nil
}

// maxPrefixes bounds the prefixes that are remembered; they never change.
const maxPrefixes = 20_000

// appPrefix returns the prefix of an app.
func (s *Service) appPrefix(ctx context.Context, app string) (string, error) {
	s.mu.Lock()
	prefix := s.prefixes[app]
	s.mu.Unlock()
	if prefix != "" {
		return prefix, nil
	}
	prefix, err := s.opts.Notes.Prefix(ctx, app)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.prefixes) >= maxPrefixes {
		clear(s.prefixes)
	}
	s.prefixes[strings.Clone(app)] = prefix
	return prefix, nil
}

// ConnectSidecar serves a sidecar for as long as it lives.
func (f *sidecarServer) ConnectSidecar(stream grpc.BidiStreamingServer[reminderv1.SidecarStream,
	reminderv1.ReminderServiceStream]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	who, err := f.callerOf(ctx, hello.GetCaller())
	if err != nil {
		return err
	}
	prefix, err := f.appPrefix(ctx, who.app)
	if err != nil {
		return err
	}
	f.callers.noteCaller(ctx, who)
	defer f.callers.removeCaller(ctx, who)
	return f.opts.Calls.Serve(stream, call.Client{App: who.app, Prefix: prefix, Address: who.address},
		hello.GetConcurrency(), first)
}

// DescribeTable returns the table of an app, or of all apps.
func (f *sidecarServer) DescribeTable(ctx context.Context,
	r *reminderv1.DescribeTableRequest) (*reminderv1.DescribeTableResponse, error) {
	if err := f.requireApp(ctx, cmp.Or(r.AppId, anyApp)); err != nil {
		return nil, err
	}
	return f.describeTable(ctx, r.AppId)
}

// describeTable returns the table of an app, or of all apps with "", and the loads that the instances
// reported to the store.
func (s *Service) describeTable(ctx context.Context, app string) (*reminderv1.DescribeTableResponse, error) {
	reported, err := s.opts.Notes.Instances(ctx)
	if err != nil {
		return nil, err
	}
	table, _ := s.currentTable()
	loads := map[string]float64{}
	at := map[caller][]string{}
	var order []caller
	instances := s.shownInstances()
	for _, i := range instances {
		loads[i.Address] = 0
	}
	for i := range reported {
		if _, lives := loads[reported[i].Address]; !lives {
			continue
		}
		loads[reported[i].Address] = reported[i].Load
		for _, c := range reported[i].Clients {
			who := caller{c.App, c.Address}
			if app != "" && app != who.app {
				continue
			}
			if at[who] == nil {
				order = append(order, who)
			}
			at[who] = append(at[who], reported[i].Address)
		}
	}
	for _, i := range instances {
		i.LoadFactor = loads[i.Address]
	}
	res := &reminderv1.DescribeTableResponse{Table: call.Update(table, app, instances)}
	for _, row := range res.Table.InstanceSync {
		till, err := s.opts.Notes.Till(ctx, &table.Bucket(row.TokenBucketId).Bucket)
		if err != nil {
			return nil, err
		}
		row.ConsumedTill = till.ConsumedTill
	}
	for _, who := range order {
		res.Sidecars = append(res.Sidecars, &reminderv1.SidecarState{AppId: who.app, Address: who.address,
			Instances: at[who]})
	}
	return res, nil
}

// knownInstances returns the instances that live.
func (s *Service) knownInstances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.living) == 0 {
		return []Instance{{Address: s.opts.Address, Node: s.opts.Node}}
	}
	return s.living
}

// shownInstances returns the instances that live, as sidecars see them.
func (s *Service) shownInstances() []*reminderv1.ReminderInstance {
	var list []*reminderv1.ReminderInstance
	for _, i := range s.knownInstances() {
		list = append(list, &reminderv1.ReminderInstance{Address: i.Address, Node: i.Node, Leader: i.Leader})
	}
	return list
}
