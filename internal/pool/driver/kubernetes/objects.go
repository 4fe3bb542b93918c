package kubernetes

import (
	"fmt"
	"strconv"
	"time"
)

// object is the part of a workload, a pod or a scaler that is used here.
type object struct {
	Kind     string
	Metadata struct {
		Name                       string
		UID                        string
		ResourceVersion            string
		Labels                     map[string]string
		Annotations                map[string]string
		CreationTimestamp          time.Time
		DeletionTimestamp          *time.Time
		DeletionGracePeriodSeconds int64
		OwnerReferences            []struct {
			Kind       string
			UID        string
			Controller bool
		}
	}
	Spec struct {
		Replicas *int // of a workload; the API server always sets it
	}
	Status struct {
		Phase             string // of a pod
		Conditions        []condition
		ContainerStatuses []containerStatus
	}
}

type condition struct{ Type, Status, Message string }

type containerStatus struct {
	Name         string
	RestartCount int
	State        containerState
	LastState    containerState
}

// containerState has at most one field set.
type containerState struct {
	Waiting    *struct{ Reason, Message string }
	Running    *struct{ StartedAt time.Time }
	Terminated *terminated
}

type terminated struct {
	ExitCode   int
	Signal     int
	Reason     string
	FinishedAt time.Time
}

// keyOfObject returns the key of an object.
func (o *object) keyOfObject() (string, bool) {
	text, ok := o.Metadata.Annotations[annotationKey]
	if !ok {
		return "", false
	}
	return decodeKey(text)
}

// replicaCount returns how many pods a workload should have.
func (o *object) replicaCount() int {
	if o.Spec.Replicas == nil {
		return 1
	}
	return *o.Spec.Replicas
}

// resourceVersion returns the position of an object in the history of the API server; ok reports that it can
// be compared.
func (o *object) resourceVersion() (v uint64, ok bool) {
	v, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	return v, err == nil
}

// Version implements kubelink.Versioned.
func (o *object) Version() string { return o.Metadata.ResourceVersion }

// olderThan reports whether an object is certainly an earlier state than another.
func (o *object) olderThan(other *object) bool {
	a, ok := o.resourceVersion()
	b, too := other.resourceVersion()
	return ok && too && a < b
}

// otherKind returns the kind of the workload of a pod, if it differs from kind.
func (o *object) otherKind(kind string) string {
	for _, owner := range o.Metadata.OwnerReferences {
		of := map[string]string{"ReplicaSet": Deployment, "StatefulSet": StatefulSet}[owner.Kind]
		if owner.Controller && of != "" && of != kind {
			return of
		}
	}
	return ""
}

// describeExit describes how a container ended.
func (t *terminated) describeExit() string {
	text := fmt.Sprintf("exit status %d", t.ExitCode)
	if t.Signal != 0 {
		text = fmt.Sprintf("signal %d", t.Signal)
	}
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += ": " + t.Reason
	}
	return text
}
