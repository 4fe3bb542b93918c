package controller

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// The API group and version of the objects, and the finalizer by which their timers and calendars are deleted
// before they are.
const (
	Group     = "rouse.dev"
	Version   = "v1"
	finalizer = Group + "/finalizer"
)

// object is a Timer or a Calendar of Kubernetes.
type object struct {
	Metadata struct {
		Name, Namespace, UID string
		ResourceVersion      string
		Generation           int64 // of the spec
		DeletionTimestamp    *time.Time
		Finalizers           []string
	}
	Spec   json.RawMessage
	Status status
}

// Version implements kubelink.Versioned.
func (o *object) Version() string { return o.Metadata.ResourceVersion }

// status is the status that the controller writes. Members without a value are null, which removes them in a
// patch.
type status struct {
	ObservedGeneration int64       `json:"observedGeneration"`
	Namespace          *string     `json:"namespace"` // of rouse
	State              *string     `json:"state"`     // of the timer
	NextFire           *string     `json:"nextFire"`
	LastFire           *lastFire   `json:"lastFire"`
	Ended              *uint64     `json:"ended"` // occurrences of the timer that have ended
	Conditions         []condition `json:"conditions"`
}

// lastFire is how the last occurrence ended. The answer of the receiver is not in it: a client that may read
// the object may not be allowed to see that.
type lastFire struct {
	Due    string  `json:"due"`
	Ended  string  `json:"ended"`
	Ending string  `json:"ending"`
	Cause  *string `json:"cause"`
}

// condition is one of a status, as Kubernetes has them.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

// The types of conditions. Ready means that rouse has the timer or calendar that the object declares;
// Invalid, that it never will.
const (
	ready   = "Ready"
	invalid = "Invalid"
)

// Reasons of conditions.
const (
	reasonApplied     = "Applied"
	reasonEnded       = "Ended"       // its time has passed
	reasonInvalid     = "Invalid"     // rouse refuses it, for the reason in the message
	reasonConflict    = "Conflict"    // another set has it, another client has changed it, or a timer needs the calendar
	reasonForbidden   = "Forbidden"   // the controller's key may not
	reasonUnavailable = "Unavailable" // rouse cannot be reached, or is overloaded
)

// maxMessage bounds the message of a condition, in bytes. Kubernetes has 32 KiB.
const maxMessage = 2048

// newConditions returns the conditions of an object: whether rouse has the timer or calendar that it
// declares, and why not.
func newConditions(was []condition, generation int64, reason, message string, now time.Time) []condition {
	is := func(yes bool) string {
		if yes {
			return "True"
		}
		return "False"
	}
	good := reason == reasonApplied || reason == reasonEnded
	list := []condition{
		{Type: ready, Status: is(good), Reason: reason, Message: rouse.Shorten(message, maxMessage),
			ObservedGeneration: generation},
		{Type: invalid, Status: is(reason == reasonInvalid), Reason: reason, ObservedGeneration: generation},
	}
	for i := range list {
		c := &list[i]
		c.LastTransitionTime = now.UTC().Format(time.RFC3339)
		if j := slices.IndexFunc(was, func(w condition) bool { return w.Type == c.Type && w.Status == c.Status }); j >= 0 {
			c.LastTransitionTime = was[j].LastTransitionTime
		}
	}
	return list
}

// equalsStatus reports whether two states are equal.
func (s *status) equalsStatus(other *status) bool { return reflect.DeepEqual(s, other) }

// readyReason is that of the condition Ready for a generation, "" if there is none.
func (s *status) readyReason(generation int64) string {
	for _, c := range s.Conditions {
		if c.Type == ready && c.ObservedGeneration == generation {
			return c.Reason
		}
	}
	return ""
}

// hasFinalizer reports whether an object has the finalizer.
func (o *object) hasFinalizer() bool { return slices.Contains(o.Metadata.Finalizers, finalizer) }
