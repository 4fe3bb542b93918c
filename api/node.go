package api

// Node is a process that serves the store.
type Node struct {
	ID       string   `json:"id"`
	Address  string   `json:"address,omitzero"` // as clients reach its API
	Version  string   `json:"version,omitzero"`
	Started  Time     `json:"started,omitzero"`
	Self     bool     `json:"self"`   // it gave this answer
	Leader   bool     `json:"leader"` // it does what is done once for all
	Buckets  int      `json:"buckets"`
	Strategy string   `json:"strategy,omitzero"`
	Roles    []string `json:"roles,omitempty"`  // what it does, if not everything
	Claims   []string `json:"claims,omitempty"` // namespaces whose timers it claims, if not all
}

// NodeList is the nodes that serve a store, in the order of their ids.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}
