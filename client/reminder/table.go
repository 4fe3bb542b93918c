package reminder

import (
	"slices"
	"strconv"
	"strings"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// Table is the owners of all buckets of tokens of the app.
type Table struct {
	Generation uint64 // grows with each change
	Buckets    []Bucket
	Instances  []Instance
}

// Bucket is a range of tokens, of which ids are made.
type Bucket struct {
	ID string
	// the address of the sidecar that makes reminders of it and executes them; empty: none is connected
	Sidecar      string
	Instance     string // the address of the instance that has it
	From, To     int32  // its tokens, both included; 0: not known
	Vector       string
	Gives        bool // it has tokens to give
	ConsumedTill int32
}

// Instance is an instance of the service.
type Instance struct {
	Address    string
	Node       string
	LoadFactor float64 // from 1 on, scale out
	Leader     bool
}

func tableOf(p *reminderv1.TokenBucketsUpdate) *Table {
	t := &Table{Generation: p.GetGeneration()}
	for _, r := range p.GetInstanceSync() {
		gives := r.GetState() == reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE ||
			r.GetState() == reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_UNSPECIFIED
		t.Buckets = append(t.Buckets, Bucket{ID: r.GetTokenBucketId(), Sidecar: r.GetSidecarInstance(),
			Instance: r.GetRemSerInstance(),
			From:     r.GetRangeFrom(), To: r.GetRangeTo(), Vector: r.GetVector(), Gives: gives,
			ConsumedTill: r.GetConsumedTill()})
	}
	for _, i := range p.GetInstances() {
		t.Instances = append(t.Instances, Instance{Address: i.GetAddress(), Node: i.GetNode(), LoadFactor: i.GetLoadFactor(),
			Leader: i.GetLeader()})
	}
	return t
}

// instanceAddresses returns the addresses of all instances; if the service does not list them, those in the
// buckets.
func (t *Table) instanceAddresses() []string {
	var list []string
	for _, i := range t.Instances {
		list = append(list, i.Address)
	}
	if len(list) == 0 {
		for _, b := range t.Buckets {
			list = append(list, b.Instance)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(a string) bool { return a == "" })
}

// tokenInstances returns the instances that give tokens of a sidecar's buckets, in the order of these, each
// once.
func (t *Table) tokenInstances(sidecar string) []string {
	var list []string
	for _, b := range t.Buckets {
		if b.Sidecar == sidecar && b.Gives && b.Instance != "" && !slices.Contains(list, b.Instance) {
			list = append(list, b.Instance)
		}
	}
	return list
}

// holdingInstance returns the instance that has the bucket of a reminder, "" if that is unknown: the id may
// be an earlier one.
func (t *Table) holdingInstance(id string) string {
	parts := strings.Split(id, "||") // reminder||B||200143||drftghrq
	if len(parts) != 4 {
		return ""
	}
	token, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return ""
	}
	for _, b := range t.Buckets {
		if b.From <= int32(token) && int32(token) <= b.To && b.Vector == parts[3] && prefixOf(b.ID) == parts[1] {
			return b.Instance
		}
	}
	return ""
}

// prefixOf returns the letters that the name of a bucket begins with, which are the app's.
func prefixOf(bucket string) string { return strings.TrimRight(bucket, "0123456789") }
