package claim

import (
	"context"
	"fmt"
	"time"
)

// Elector takes part in an election of the leader outside of the store: see MemberOptions.Leads.
type Elector interface {
	Run(ctx context.Context)
	Leads() bool
	Holder() string // identity of the leader that this node knows; "" is none
}

// ElectionOptions configure an Elector. Zero fields have the defaults that their comments name.
type ElectionOptions struct {
	Namespace string // of the lease
	Name      string // of the lease; it is created if it does not exist
	Identity  string // unique among all processes that compete for the lease

	// Kubeconfig is a file with the address of the API server and the credentials; empty: the service
	// account of the pod.
	Kubeconfig string

	// TTL is how long the lease lasts without a renewal, in whole seconds, at least 3 s: how long the
	// others wait before they take over from a dead leader. Default 15 s.
	TTL time.Duration

	// UserAgent is sent to the API server; default "rouse".
	UserAgent string

	// Changed is called when this node observes a new leader; "" means none. Failed is called with the error
	// of a request that will be retried. Both may be nil and must not block.
	Changed func(holder string)
	Failed  func(err error)
}

// Election is a way to elect the leader outside of the store.
type Election struct {
	Split func(lease string) (namespace, name string, err error) // reads the setting that names the lease
	New   func(o ElectionOptions) (Elector, error)
}

var elections = map[string]Election{}

// RegisterElection makes an election available. Its package calls it when the program starts.
func RegisterElection(name string, e Election) { elections[name] = e }

// ElectionBy returns the election of a name. It fails if the program does not link it.
func ElectionBy(name string) (Election, error) {
	e, linked := elections[name]
	if !linked {
		return e, fmt.Errorf("this program does not link the election by %s: import _ %q", name,
			"github.com/rousehq/rouse/node/all")
	}
	return e, nil
}
