package api

// Node is a process that serves the store.
type Node struct {
	ID      string `json:"id"`
	Address string `json:"address,omitzero"` // as clients reach its API; left out if it is not told
	Version string `json:"version,omitzero"`
	Started Time   `json:"started,omitzero"`
	Self    bool   `json:"self"` // it gave this answer
	// it does what is done once for all nodes, which is bookkeeping only
	Leader   bool     `json:"leader"`
	Buckets  int      `json:"buckets" schema:"minimum=0"` // shares of the timers that it has now
	Strategy string   `json:"strategy,omitzero"`          // how nodes share the timers
	Roles    []string `json:"roles,omitempty"`            // what it does, if not everything
	Claims   []string `json:"claims,omitempty"`           // namespaces whose timers it claims, if not all
}

// NodeList is the nodes that serve a store, in the order of their ids.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}
