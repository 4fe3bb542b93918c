package rouse_test

import (
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// TestWhatADeleteCutsOffIsNotCalledUnsent: a process that died may have sent what its row has no attempt of.
func TestWhatADeleteCutsOffIsNotCalledUnsent(t *testing.T) {
	due := rouse.Instant(1_900_000_000_000)
	tm := &rouse.Timer{Key: rouse.Key{Namespace: "n", Name: "a"}, Due: due, Visible: due, Spec: rouse.Spec{Schedule: "2030-03-17T17:46:40Z"}}
	log := tm.CutOff(due.Add(1000), nil, nil, rouse.CauseDeleted, "deleted")
	if len(log) != 1 || log[0].Ending != rouse.EndSkipped || log[0].Attempts != 0 || strings.Contains(log[0].Reason, "sent") {
		t.Errorf("%+v", log)
	}
}
