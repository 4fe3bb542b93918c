package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	etcdv1 "github.com/rousehq/rouse/api/dapr/etcd/v1"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/schedule"
)

// The etcd keys of Dapr's scheduler for jobs and their counters. The rest of a key names the job.
const (
	etcdJobs     = "dapr/jobs/"
	etcdCounters = "dapr/counters/"
	etcdPage     = 500
)

// openEtcd returns a function that reads the jobs of an etcd, and one that closes the connection.
func (c *daprImportCmd) openEtcd(i *daprImport, oneNamespace bool) (read func(now rouse.Instant) error, end func(), err error) {
	if _, _, err := net.SplitHostPort(c.Etcd); err != nil {
		return nil, nil, rouse.Refuse("etcd", c.Etcd, "is no address of an etcd", "give HOST:PORT, such as 127.0.0.1:2379")
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Etcd, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxDaprList)))
	if err != nil {
		return nil, nil, err
	}
	from := etcdSource{etcdv1.NewKVClient(conn), i.a, 0}
	read = func(now rouse.Instant) error {
		counters := map[string]*etcdv1.StoredCounter{}
		err := from.each(etcdCounters, func(name string, value []byte) error {
			counter := &etcdv1.StoredCounter{}
			counters[name] = counter
			return proto.Unmarshal(value, counter)
		})
		if err != nil {
			return err
		}
		err = from.each(etcdJobs, func(name string, value []byte) error {
			return i.takeStored(name, value, counters[name], oneNamespace, now)
		})
		return errors.Join(err, i.flush())
	}
	return read, func() { _ = conn.Close() }, nil
}

// takeStored converts a stored job to a timer.
func (i *daprImport) takeStored(key string, value []byte, counter *etcdv1.StoredCounter, oneNamespace bool, now rouse.Instant) error {
	var stored etcdv1.StoredJob
	var meta schedulerv1.JobMetadata
	err := proto.Unmarshal(value, &stored)
	if err == nil {
		err = proto.Unmarshal(stored.GetJob().GetMetadata().GetValue(), &meta)
	}
	spec := stored.GetJob()
	policy := &schedulerv1.JobFailurePolicy{}
	if err == nil && spec != nil {
		err = proto.Unmarshal(spec.FailurePolicy, policy)
	}
	if err != nil || spec == nil {
		return i.tell(daprJob{Name: key}, rouse.Refuse("etcd", key, "is no job that can be read", "look at it with etcdctl"))
	}
	if !i.wanted(&meta, oneNamespace) {
		return nil
	}
	named := &schedulerv1.NamedJob{Name: nameOf(key, &meta), Metadata: &meta, Job: &schedulerv1.Job{Schedule: spec.Schedule, DueTime: spec.DueTime, Ttl: spec.Ttl,
		Repeats: spec.Repeats, Data: spec.Payload}}
	if spec.FailurePolicy != nil {
		named.Job.FailurePolicy = policy
	}
	at := job.Stored{Start: timeOf(stored.Start), Due: timeOf(stored.DueTime), Expiration: timeOf(stored.Expiration)}
	if counter != nil && counter.JobPartitionId == stored.PartitionId { // otherwise it belongs to an earlier job of the name
		at.Count, at.Last = counter.Count, timeOf(counter.LastTrigger)
	}
	ref, err := job.Of(named.Name, named.Metadata)
	var r job.Resumed
	if err == nil {
		r, err = job.ResumeStored(ref, named, at, now, schedule.Compile)
	}
	return i.put(ref, r, err)
}

// wanted reports whether the flags select a job; without them every job is selected.
func (i *daprImport) wanted(m *schedulerv1.JobMetadata, oneNamespace bool) bool {
	actor := m.GetTarget().GetActor()
	switch {
	case oneNamespace && m.Namespace != i.DaprNamespace:
		return false
	case len(i.App) == 0 && len(i.ActorType) == 0:
		return true
	case actor == nil:
		return slices.Contains(i.App, m.AppId)
	}
	return slices.Contains(i.ActorType, actor.Type) || i.Workflows && slices.ContainsFunc(i.App, func(app string) bool {
		return slices.ContainsFunc(workflowKinds, func(kind string) bool {
			return actor.Type == strings.Join([]string{"dapr.internal", m.Namespace, app, kind}, ".")
		})
	})
}

// nameOf returns the name of a job: the part of its key after its owner.
func nameOf(key string, m *schedulerv1.JobMetadata) string {
	owner := []string{"app", m.Namespace, m.AppId}
	if actor := m.GetTarget().GetActor(); actor != nil {
		owner = []string{"actorreminder", m.Namespace, actor.Type, actor.Id}
	}
	return strings.TrimPrefix(key, strings.Join(owner, "||")+"||")
}

// timeOf converts a time; nil is the zero time.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// etcdSource reads an etcd at one revision.
type etcdSource struct {
	kv       etcdv1.KVClient
	a        *app
	revision int64
}

// each calls do for all keys with a prefix, which it strips.
func (s *etcdSource) each(prefix string, do func(name string, value []byte) error) error {
	from, end := []byte(prefix), append([]byte(prefix[:len(prefix)-1]), prefix[len(prefix)-1]+1)
	for {
		ctx, cancel := context.WithTimeout(s.a.ctx, s.a.cli.Timeout)
		r, err := s.kv.Range(ctx, &etcdv1.RangeRequest{Key: from, RangeEnd: end, Limit: etcdPage, Revision: s.revision})
		cancel()
		if err != nil {
			s.a.dialled = "" // the unavailable server is not rouse's
			return fmt.Errorf("read the etcd: %w", rousev1.StatusToError(status.Convert(err)))
		}
		s.revision = r.GetHeader().GetRevision()
		for _, kv := range r.Kvs {
			if err := do(string(bytes.TrimPrefix(kv.Key, []byte(prefix))), kv.Value); err != nil {
				return err
			}
		}
		if !r.More || len(r.Kvs) == 0 {
			return nil
		}
		from = append(bytes.Clone(r.Kvs[len(r.Kvs)-1].Key), 0)
	}
}
