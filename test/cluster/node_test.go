package cluster

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// node is a rouse on a store that it shares.
type node struct {
	*harness.Process

	skewed time.Duration // how wrong the clock of the running process is made
}

func newNode(t testing.TB, name, store string, flags ...string) *node {
	t.Helper()
	return &node{Process: harness.NewProcess(t, name, harness.TempDir(t), store, append([]string{"--node", name}, flags...)...)}
}
