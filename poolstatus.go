package rouse

// PoolStatus is a pool of workers, as a node manages it.
type PoolStatus struct {
	Pool       string
	Node       string
	Namespaces string  // shared, or apart: each namespace has groups of its own
	State      string  // connecting, standing by or leading
	Leader     string  // the process that leads it, if known
	Since      Instant // when this node began to lead it; 0: it does not

	// Counts of all groups.
	GroupCount int
	Workers    int
	Ready      int // requests in the queues
	Held       int // requests that workers have
	Waiting    int // groups, and keys without one, that wait for a limit

	Groups []PoolGroup // those with trouble first
}

// PoolGroup is the workers of a key.
type PoolGroup struct {
	Namespace  string // whose group it is; empty: namespaces share it
	Key        string
	Status     string  // that it should have
	Queue      string  // that its queue has, in the same words, or closing
	Error      string  // why Queue differs from Status, or its workers cannot be started or ended
	Limit      string  // its workers wait for this one
	Pinned     bool    // it stays without requests
	LastReport Instant // of its workers
	Ready      int     // requests in its queue, when they were last counted
	Held       int     // requests that its workers had then
	Workers    []PoolWorker
}

// PoolWorker is one process of a group.
type PoolWorker struct {
	ID       string
	State    string  // running, waiting or draining
	Since    Instant // of the state
	Starts   int     // how often it was started
	LastExit string  // how it ended the last time
}

// Name returns the name of a group in commands: its key, or NAMESPACE/KEY.
func (g *PoolGroup) Name() string {
	if g.Namespace == "" {
		return g.Key
	}
	return g.Namespace + "/" + g.Key
}

// Trouble returns why a group does not do all of its work; empty: it does.
func (g *PoolGroup) Trouble() string {
	if g.Error != "" {
		return g.Error
	}
	for i := range g.Workers {
		switch w := &g.Workers[i]; {
		case w.LastExit == "":
		case w.Starts == 0:
			return "a worker does not start: " + w.LastExit
		default:
			return "a worker ended: " + w.LastExit
		}
	}
	if g.Limit != "" {
		return "its workers wait for " + g.Limit
	}
	return ""
}
