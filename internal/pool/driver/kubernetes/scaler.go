package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rousehq/rouse/internal/kubelink"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// The kinds of autoscaling, as in the annotation of a workload.
const (
	scaledByNothing = "none"
	scaledByHPA     = "hpa"
	scaledByKEDA    = "keda"
)

func (s Scaling) scalingMode() string {
	switch {
	case s.HPA != nil:
		return scaledByHPA
	case s.KEDA != nil:
		return scaledByKEDA
	}
	return scaledByNothing
}

// scalerResource returns the kind of the scaler, if there is one.
func (s Scaling) scalerResource() (resource, bool) { return scalersOf(s.scalingMode()) }

func scalersOf(mode string) (resource, bool) {
	switch mode {
	case scaledByHPA:
		return hpaResource, true
	case scaledByKEDA:
		return kedaResource, true
	}
	return resource{}, false
}

// scalerName returns the name of the scaler of a workload. It contains the workload's turn, because the
// scaler of the last turn may exist for a while: KEDA's have a finalizer.
func scalerName(w *object) string { return w.Metadata.Name + "-" + w.Metadata.Labels[labelTurn] }

// scaler is the desired scaler of a workload.
type scaler struct {
	name string
	spec map[string]any
	hash string // of the above, and of the workload
}

// scalerOf returns the scaler of a workload; scaling must be configured.
func (d *Driver) scalerOf(w *object, g driver.Group) (*scaler, error) {
	spec, err := d.config.Scaling.scalerSpec(&d.config, w.Metadata.Name, g)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return &scaler{name: scalerName(w), spec: spec, hash: hashTexts(string(text), w.Metadata.UID)}, nil
}

// ensureScaler creates or updates the scaler of a workload.
func (d *Driver) ensureScaler(ctx context.Context, g driver.Group, w *object) error {
	r, ok := d.config.Scaling.scalerResource()
	if !ok {
		return nil
	}
	want, err := d.scalerOf(w, g)
	if err != nil {
		return err
	}
	is, err := d.api.fetchObject(ctx, d.scalers.at, want.name)
	if err != nil && !kubelink.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("look for %s %s: %w", r.kind, want.name, err)
	}
	if err == nil && is.Metadata.Annotations[annotationHash] == want.hash {
		d.scalers.putObject(is)
		return nil
	}
	got, err := d.api.applyObject(ctx, d.scalers.at, want.name,
		map[string]any{"apiVersion": r.apiVersion, "kind": r.kind, "metadata": map[string]any{
			"name": want.name, "namespace": d.config.Namespace,
			"labels": mergeMaps(d.workloadLabels(w.Metadata.Name),
				map[string]string{labelTurn: w.Metadata.Labels[labelTurn]}),
			"annotations": map[string]string{annotationPool: d.config.Pool, annotationKey: encodeKey(g.Key),
				annotationHash: want.hash},
			// It is deleted with the workload.
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": d.config.Kind, "name": w.Metadata.Name,
				"uid": w.Metadata.UID}},
		}, "spec": want.spec})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", r.kind, want.name, err)
	}
	d.scalers.putObject(got)
	return nil
}

// asWanted reports whether a scaled workload and its scaler match the desired state according to the watches.
// The pool calls Ensure repeatedly for it, because its number of workers differs from the configured one;
// watches report later changes.
func (d *Driver) asWanted(want *rendered, g driver.Group) bool {
	if d.scalers == nil || !d.workloads.isUpToDate() || !d.scalers.isUpToDate() {
		return false
	}
	w := d.workloads.objectNamed(want.name)
	if w == nil || w.Metadata.DeletionTimestamp != nil || want.differsFrom(w) {
		return false
	}
	s, err := d.scalerOf(w, g)
	if err != nil {
		return false
	}
	is := d.scalers.objectNamed(s.name)
	return is != nil && is.Metadata.Annotations[annotationHash] == s.hash
}

// dropScaler deletes the scaler that an earlier configuration created for a workload, if its kind differs.
func (d *Driver) dropScaler(ctx context.Context, w *object) error {
	was := w.Metadata.Annotations[annotationMode]
	r, ok := scalersOf(was)
	if !ok || was == d.config.Scaling.scalingMode() {
		return nil
	}
	_, err := d.api.deleteObject(ctx, d.api.collectionURL(r, d.config.Namespace), scalerName(w), "")
	if err != nil && !kubelink.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("delete %s %s of an earlier configuration: %w", r.kind, scalerName(w), err)
	}
	return nil
}

// queueVariable is the variable with the name of a group's queue.
const queueVariable = "WORKER_REQUESTS_QUEUE"

// scalerSpec returns the spec of the scaler.
func (s Scaling) scalerSpec(c *Config, workload string, g driver.Group) (map[string]any, error) {
	target := map[string]any{"apiVersion": "apps/v1", "kind": c.Kind, "name": workload}
	if h := s.HPA; h != nil {
		return map[string]any{"scaleTargetRef": target, "minReplicas": h.Min, "maxReplicas": h.Max,
			"metrics": []any{map[string]any{"type": "Resource",
				"resource": map[string]any{"name": "cpu", "target": map[string]any{"type": "Utilization",
					"averageUtilization": h.TargetCPU}}}}}, nil
	}
	k := s.KEDA
	target["envSourceContainerName"] = c.Container
	queue := g.Vars[queueVariable]
	if queue == "" {
		return nil, fmt.Errorf("the group has no %s, so KEDA cannot scale it: its transport has no queues", queueVariable)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	trigger := map[string]any{"type": "rabbitmq", "metadata": map[string]any{"queueName": queue, "mode": k.Mode,
		"protocol": k.Protocol,
		"value":    number(k.Value), "activationValue": number(k.ActivationValue)}}
	if k.Authentication != "" {
		of := "TriggerAuthentication"
		if k.Cluster {
			of = "ClusterTriggerAuthentication"
		}
		trigger["authenticationRef"] = map[string]any{"name": k.Authentication, "kind": of}
	} else {
		trigger["metadata"].(map[string]any)["hostFromEnv"] = k.HostFromEnv
	}
	spec := map[string]any{"scaleTargetRef": target, "minReplicaCount": k.Min, "maxReplicaCount": k.Max,
		"triggers": []any{trigger}}
	if k.PollingInterval > 0 {
		spec["pollingInterval"] = int(k.PollingInterval.Seconds())
	}
	if k.Cooldown > 0 {
		spec["cooldownPeriod"] = int(k.Cooldown.Seconds())
	}
	return spec, nil
}
