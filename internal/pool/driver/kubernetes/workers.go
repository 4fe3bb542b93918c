package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// List returns the pods of the pool that have not ended. It adds an entry for each missing pod of a workload.
// A workload that should have no pods, or lacks its scaler, is listed with one waiting entry: so it stays
// visible as long as it exists, and is handled as long as it differs from its desired state.
func (d *Driver) List(ctx context.Context) ([]driver.Worker, error) {
	if err := d.refuseClosed(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, c := range []*cache{d.workloads, d.pods, d.scalers} {
		if c == nil {
			continue
		}
		if err := c.waitForSync(ctx); err != nil {
			return nil, fmt.Errorf("list %s of the namespace %s: %w", c.name, d.config.Namespace, err)
		}
	}
	// List pods first: a pod whose workload is created in between would count as left over.
	pods := d.pods.allObjects()
	workloads := map[string]*object{} // by turn
	for _, w := range d.workloads.allObjects() {
		workloads[w.Metadata.Labels[labelTurn]] = w
	}
	var list []driver.Worker
	there := map[string]int{} // number of pods of a turn that do not drain
	any := map[string]bool{}
	for _, p := range pods {
		key, ok := p.keyOfObject()
		if !ok || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			continue
		}
		turn := p.Metadata.Labels[labelTurn]
		any[turn] = true
		w := d.workerOfPod(p, key)
		if of := workloads[turn]; w.State != driver.Draining && (of == nil || of.Metadata.DeletionTimestamp != nil) &&
			p.otherKind(d.config.Kind) == "" {
			w.State = driver.Draining // Kubernetes deletes it soon
		}
		if w.State != driver.Draining {
			there[turn]++
		}
		list = append(list, w)
	}
	scaled := map[string]bool{}
	if d.scalers != nil {
		for _, s := range d.scalers.allObjects() {
			scaled[s.Metadata.Name] = true
		}
	}
	for turn, w := range workloads {
		if key, ok := w.keyOfObject(); ok {
			list = append(list, missingPods(w, key, there[turn], any[turn])...)
			if d.scalers != nil && w.Metadata.DeletionTimestamp == nil && !scaled[scalerName(w)] {
				list = append(list, driver.Worker{ID: w.Metadata.Name + "-scaler", Key: key, State: driver.Waiting,
					Since:    w.Metadata.CreationTimestamp,
					LastExit: "what scales it is not there"})
			}
		}
	}
	return list, nil
}

// missingPods returns entries for the missing pods of a workload.
func missingPods(w *object, key string, there int, any bool) []driver.Worker {
	e := driver.Worker{ID: w.Metadata.Name, Key: key, State: driver.Running, Since: w.Metadata.CreationTimestamp}
	switch {
	case w.Metadata.DeletionTimestamp != nil:
		if any {
			return nil
		}
		e.State, e.Since = driver.Draining, *w.Metadata.DeletionTimestamp
		return []driver.Worker{e}
	case w.replicaCount() == 0 && there == 0:
		e.State = driver.Waiting // it is scaled to zero
		return []driver.Worker{e}
	}
	for _, c := range w.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == "True" {
			e.State, e.LastExit = driver.Waiting, c.Message
		}
	}
	var list []driver.Worker
	for i := there; i < w.replicaCount(); i++ {
		e.ID = fmt.Sprintf("%s-%d", w.Metadata.Name, i)
		list = append(list, e)
	}
	return list
}

// workerOfPod returns the state of a pod.
func (d *Driver) workerOfPod(p *object, key string) driver.Worker {
	w := driver.Worker{ID: p.Metadata.Name, Key: key, State: driver.Running, Since: p.Metadata.CreationTimestamp}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			w.State, w.LastExit = driver.Waiting, c.Message // usually it waits for resources
		}
	}
	if p.Status.Phase == "Pending" && len(p.Status.Conditions)+len(p.Status.ContainerStatuses) == 0 {
		w.State, w.LastExit = driver.Waiting, "nothing in the cluster has taken the pod to schedule it"
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == d.config.Container {
			s.applyToWorker(&w)
		}
	}
	if end := p.Metadata.DeletionTimestamp; end != nil {
		w.State = driver.Draining
		// the timestamp is the end of the grace period
		w.Since = end.Add(-time.Duration(p.Metadata.DeletionGracePeriodSeconds) * time.Second)
	}
	return w
}

// applyToWorker sets the state of a worker from its container.
func (s *containerStatus) applyToWorker(w *driver.Worker) {
	last := s.LastState.Terminated
	if s.State.Terminated != nil {
		last = s.State.Terminated
	}
	if last != nil {
		w.LastExit = last.describeExit()
	}
	if s.RestartCount > 0 || s.State.Waiting == nil || last != nil {
		w.Starts = s.RestartCount + 1
	}
	switch {
	case s.State.Running != nil:
		w.Since = s.State.Running.StartedAt
	case s.State.Terminated != nil:
		w.State, w.Since = driver.Waiting, s.State.Terminated.FinishedAt
	case s.State.Waiting != nil && s.State.Waiting.Reason != "ContainerCreating" &&
		s.State.Waiting.Reason != "PodInitializing":
		w.State = driver.Waiting
		if last != nil {
			w.Since = last.FinishedAt
		} else {
			w.LastExit = s.State.Waiting.Reason + ": " + s.State.Waiting.Message // such as a missing image
		}
	}
}
