package dapr

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	etcdv1 "github.com/rousehq/rouse/api/dapr/etcd/v1"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// The etcd keys of Dapr's scheduler for jobs and their counters. The rest of a key names the job.
const (
	etcdJobs     = "dapr/jobs/"
	etcdCounters = "dapr/counters/"
	etcdPage     = 500
)

// Etcd reads jobs with all of their progress from the etcd of a scheduler, at one revision.
type Etcd struct {
	Selection
	KV      etcdv1.KVClient
	Timeout time.Duration // of each call

	revision int64
}

// Read calls add for each job.
func (e *Etcd) Read(ctx context.Context, now rouse.Instant,
	add func(foreign.Resumed) error) (notes []string, err error) {
	counters := map[string]*etcdv1.StoredCounter{}
	err = e.eachKey(ctx, etcdCounters, func(name string, value []byte) error {
		counter := &etcdv1.StoredCounter{}
		counters[name] = counter
		return proto.Unmarshal(value, counter)
	})
	if err != nil {
		return nil, err
	}
	return nil, e.eachKey(ctx, etcdJobs, func(name string, value []byte) error {
		named, stored := decodeStored(name, value)
		switch {
		case named == nil:
			return add(foreign.Resumed{Timer: rouse.Timer{Key: rouse.Key{Name: name}},
				Err: rouse.Refuse("etcd", name, "is no job that can be read", "look at it with etcdctl")})
		case !e.selectsJob(named.Metadata):
			return nil
		}
		at := job.Stored{Start: timeOrZero(stored.Start), Due: timeOrZero(stored.DueTime),
			Expiration: timeOrZero(stored.Expiration)}
		// otherwise it belongs to an earlier job of the name
		if c := counters[name]; c != nil && c.JobPartitionId == stored.PartitionId {
			at.Count, at.Last = c.Count, timeOrZero(c.LastTrigger)
		}
		ref, err := job.Of(named.Name, named.Metadata)
		var r job.Resumed
		if err == nil {
			r, err = job.ResumeStored(ref, named, at, now, schedule.Compile)
		}
		return add(e.jobEntry(ref, r, err))
	})
}

// decodeStored reads a stored job; nil is none that can be read.
func decodeStored(key string, value []byte) (*schedulerv1.NamedJob, *etcdv1.StoredJob) {
	var stored etcdv1.StoredJob
	var meta schedulerv1.JobMetadata
	policy := &schedulerv1.JobFailurePolicy{}
	if proto.Unmarshal(value, &stored) != nil || stored.Job == nil ||
		proto.Unmarshal(stored.Job.GetMetadata().GetValue(), &meta) != nil ||
		proto.Unmarshal(stored.Job.FailurePolicy, policy) != nil {
		return nil, nil
	}
	spec := stored.Job
	named := &schedulerv1.NamedJob{Name: jobName(key, &meta), Metadata: &meta,
		Job: &schedulerv1.Job{Schedule: spec.Schedule, DueTime: spec.DueTime, Ttl: spec.Ttl,
			Repeats: spec.Repeats, Data: spec.Payload}}
	if spec.FailurePolicy != nil {
		named.Job.FailurePolicy = policy
	}
	return named, &stored
}

// jobName returns the name of a job: the part of its key after its owner.
func jobName(key string, m *schedulerv1.JobMetadata) string {
	owner := []string{"app", m.Namespace, m.AppId}
	if actor := m.GetTarget().GetActor(); actor != nil {
		owner = []string{"actorreminder", m.Namespace, actor.Type, actor.Id}
	}
	return strings.TrimPrefix(key, strings.Join(owner, "||")+"||")
}

// timeOrZero converts a time; nil is the zero time.
func timeOrZero(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// eachKey calls do for all keys with a prefix, which it strips.
func (e *Etcd) eachKey(ctx context.Context, prefix string, do func(name string, value []byte) error) error {
	from, end := []byte(prefix), append([]byte(prefix[:len(prefix)-1]), prefix[len(prefix)-1]+1)
	for {
		call, cancel := context.WithTimeout(ctx, e.Timeout)
		r, err := e.KV.Range(call, &etcdv1.RangeRequest{Key: from, RangeEnd: end, Limit: etcdPage, Revision: e.revision})
		cancel()
		if err != nil {
			return fmt.Errorf("read the etcd: %w", rousev1.StatusToError(status.Convert(err)))
		}
		e.revision = r.GetHeader().GetRevision()
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
