package engine

import (
	"testing"

	"github.com/rousehq/rouse"
)

// TestJobsOfNamespacesTakeTurns: one of another namespace waits for one turn of each, however many there are.
func TestJobsOfNamespacesTakeTurns(t *testing.T) {
	x := &attention{most: 1, signal: make(chan struct{}, 1)}
	add := func(namespace string) {
		x.queueAttention(&entry{row: rouse.Row{Key: rouse.Key{Namespace: namespace}}})
	}
	for range 100 {
		add("a")
	}
	add("b")
	add("c")
	got := ""
	for range 12 {
		list, rows := x.takeBatch()
		if len(list) != 1 || list[0].row.Key != rows[0].Key {
			t.Fatalf("%d entries, %v", len(list), rows)
		}
		got += rows[0].Key.Namespace
		add(rows[0].Key.Namespace) // its job goes on
	}
	if got != "abacabacabac" && got != "abcabcabcabc" {
		t.Errorf("the turns are those of %s", got)
	}
	if x.most = 500; len(x.list) != 102 {
		t.Errorf("%d are queued", len(x.list))
	}
	if list, _ := x.takeBatch(); len(list) != 102 {
		t.Errorf("%d of all", len(list))
	}
}
