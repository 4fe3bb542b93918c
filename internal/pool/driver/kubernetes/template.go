package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// rendered is the desired workload without its turn.
type rendered struct {
	name     string
	kind     resource
	ns       string
	labels   map[string]string
	notes    map[string]string // annotations
	template map[string]any
	replicas int    // -1: an autoscaler's matter
	hash     string // of all but the replicas
}

// renderWorkload returns the desired workload of a group.
func (d *Driver) renderWorkload(g driver.Group) (*rendered, error) {
	c := d.config
	r := &rendered{name: workloadName(c.Instance, c.Pool, g.Key), kind: workloadsOf(c.Kind), ns: c.Namespace,
		replicas: g.Workers}
	if c.Scaling.scalingMode() != scaledByNothing {
		r.replicas = -1
	}
	own := d.workloadLabels(r.name)
	if namespace, _ := driver.SplitGroup(g.Key); namespace != "" {
		own[labelOf] = labelOr(namespace)
	}
	notes := map[string]string{annotationPool: c.Pool, annotationKey: encodeKey(g.Key)}
	r.labels, r.notes = mergeMaps(c.Labels, own), mergeMaps(c.Annotations, notes,
		map[string]string{annotationMode: c.Scaling.scalingMode()})

	text, err := json.Marshal(c.Template) // a copy
	if err == nil {
		err = json.Unmarshal(text, &r.template)
	}
	if err != nil {
		return nil, fmt.Errorf("the template: %w", err)
	}
	meta, _ := r.template["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		r.template["metadata"] = meta
	}
	meta["labels"], meta["annotations"] = mergeMaps(c.Labels, stringValues(meta["labels"]), own),
		mergeMaps(c.Annotations, stringValues(meta["annotations"]), notes)
	if err := d.giveEnvironment(r.template, g); err != nil {
		return nil, err
	}
	text, err = json.Marshal([]any{r.labels, r.notes, r.template})
	if err != nil {
		return nil, fmt.Errorf("the template: %w", err)
	}
	r.hash = hashTexts(string(text))
	return r, nil
}

// workloadLabels returns the labels of all objects of a workload, without its turn.
func (d *Driver) workloadLabels(name string) map[string]string {
	return map[string]string{labelManagedBy: managedBy, labelInstance: d.config.Instance,
		labelPool: labelOr(d.config.Pool), labelSet: d.set, labelGroup: name}
}

// giveEnvironment sets the variables of the worker's container. Those of the template come last, so that they
// can refer to the others.
func (d *Driver) giveEnvironment(template map[string]any, g driver.Group) error {
	spec, _ := template["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, one := range containers {
		container, _ := one.(map[string]any)
		if container["name"] != d.config.Container {
			continue
		}
		theirs, _ := container["env"].([]any)
		all := d.groupEnvironment(g.Vars)
		for _, v := range theirs {
			if named, ok := v.(map[string]any); ok {
				if name, ok := named["name"].(string); ok {
					delete(all, name)
				}
			}
		}
		env := []any{map[string]any{"name": "WORKER_ID",
			"valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.name"}}}}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			// $(NAME) would be a reference
			env = append(env, map[string]any{"name": name, "value": strings.ReplaceAll(all[name], "$", "$$")})
		}
		container["env"] = append(env, theirs...)
		return nil
	}
	return fmt.Errorf("the template has no container %q", d.config.Container)
}

// groupEnvironment returns the variables of a group's workers. It omits values that are not UTF-8, which JSON
// requires, or contain a NUL.
func (d *Driver) groupEnvironment(vars map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range d.config.PassEnv {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, d.config.Env)
	for name, value := range vars {
		if !slices.Contains(d.config.OmitEnv, name) {
			all[name] = value
		}
	}
	maps.DeleteFunc(all, func(name, value string) bool {
		return name == "WORKER_ID" || !utf8.ValidString(value) || strings.Contains(value, "\x00")
	})
	return all
}

// differsFrom reports whether the existing workload differs from the desired one.
func (r *rendered) differsFrom(is *object) bool {
	return is.Metadata.Annotations[annotationHash] != r.hash || r.replicas >= 0 && is.replicaCount() != r.replicas
}

// objectToApply returns the object to apply, with the uid of an existing object or without one for a new
// object.
func (r *rendered) objectToApply(turn, uid string) map[string]any {
	meta := map[string]any{"name": r.name, "namespace": r.ns,
		"labels":      mergeMaps(r.labels, map[string]string{labelTurn: turn}),
		"annotations": mergeMaps(r.notes, map[string]string{annotationHash: r.hash})}
	if uid != "" {
		meta["uid"] = uid
	}
	template := maps.Clone(r.template)
	pod := maps.Clone(template["metadata"].(map[string]any))
	pod["labels"] = mergeMaps(pod["labels"].(map[string]string), map[string]string{labelTurn: turn})
	template["metadata"] = pod
	spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]string{labelGroup: r.name,
		labelTurn: turn}}, "template": template,
		"revisionHistoryLimit": 1}
	if r.replicas >= 0 {
		spec["replicas"] = r.replicas
	}
	if r.kind.kind == StatefulSet {
		spec["serviceName"] = r.name // required, but it need not exist
		spec["podManagementPolicy"] = "Parallel"
	}
	return map[string]any{"apiVersion": r.kind.apiVersion, "kind": r.kind.kind, "metadata": meta, "spec": spec}
}

// mergeMaps merges maps; later ones take precedence.
func mergeMaps(list ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}

// stringValues returns the strings of a decoded map.
func stringValues(v any) map[string]string {
	all := map[string]string{}
	m, _ := v.(map[string]any)
	for name, value := range m {
		if text, ok := value.(string); ok {
			all[name] = text
		}
	}
	return all
}
