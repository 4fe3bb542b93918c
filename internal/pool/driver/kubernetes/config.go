package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/kubelink"
)

// The kinds of workloads.
const (
	Deployment  = "Deployment"
	StatefulSet = "StatefulSet" // its pods keep their names, which are unique: a new one waits for the end of the old one
)

// Config configures the workers and their location. Its tags are the settings of a file of pools.
type Config struct {
	Pool string `yaml:"-"`

	Kubeconfig string `yaml:"kubeconfig"` // API server and credentials; the service account of this pod if empty
	Namespace  string `yaml:"namespace"`  // of all objects; that of the kubeconfig, or of this pod, if empty

	// Instance distinguishes this rouse from others in the namespace, whose pools may have the same names; a
	// DNS label. Managers of one pool use the same value.
	Instance string `yaml:"instance"`

	Kind string `yaml:"kind"` // Deployment if empty

	// Template is a PodTemplateSpec of Kubernetes, as decoded JSON. Container is the name of the worker's
	// container; the first if empty.
	Template  map[string]any `yaml:"template"`
	Container string         `yaml:"container"`

	Labels      map[string]string `yaml:"labels"` // of workloads and their pods, in addition to the driver's own
	Annotations map[string]string `yaml:"annotations"`

	// The worker gets WORKER_ID, which is the name of its pod, the variables of its group, and these. A
	// variable in the template takes precedence.
	Env     map[string]string `yaml:"env"`
	PassEnv []string          `yaml:"pass_env"` // variables of this process that workers get
	// variables of the group that workers do not get, because the template takes them from a Secret by
	// envFrom
	OmitEnv []string `yaml:"omit_env"`

	Scaling Scaling `yaml:"scaling"` // zero means that a group has its configured number of workers

	Log *slog.Logger `yaml:"-"` // slog.Default if nil
}

// Scaling is the autoscaling of workloads; at most one field is set.
type Scaling struct {
	HPA  *HPA  `yaml:"hpa"`
	KEDA *KEDA `yaml:"keda"`
}

// HPA scales each workload with a HorizontalPodAutoscaler by the CPU usage of its pods. Their template must
// request CPU.
type HPA struct {
	Min       int `yaml:"min"` // workers; 1 if zero
	Max       int `yaml:"max"`
	TargetCPU int `yaml:"target_cpu"` // percent of the request; 80 if zero
}

// KEDA scales each workload by the length of the group's queue in RabbitMQ.
type KEDA struct {
	Min int `yaml:"min"` // workers; may be zero
	Max int `yaml:"max"`

	// how many requests there are for each worker, or how many a second with the mode MessageRate; 1 if zero
	Value           float64 `yaml:"value"`
	ActivationValue float64 `yaml:"activation_value"` // more than so many wake the first worker, if Min is zero
	// QueueLength if empty, or MessageRate, which needs the protocol http
	Mode string `yaml:"mode"`
	// amqp, http or auto; auto if empty. With amqp, requests that workers hold are not counted
	Protocol        string        `yaml:"protocol"`
	PollingInterval time.Duration `yaml:"polling_interval"` // in whole seconds; KEDA's default, 30 s, if zero
	// from the last request to zero workers, in whole seconds; KEDA's default, 5 min, if zero
	Cooldown time.Duration `yaml:"cooldown"`

	// Authentication is the name of a TriggerAuthentication with the address of RabbitMQ as its parameter
	// host; a ClusterTriggerAuthentication if Cluster is set. Without it, the address is in the variable of
	// the worker that HostFromEnv names; WORKER_AMQP_URI if empty.
	Authentication string `yaml:"authentication"`
	Cluster        bool   `yaml:"authentication_cluster"`
	HostFromEnv    string `yaml:"host_from_env"`
}

const (
	modeLength = "QueueLength"
	modeRate   = "MessageRate"
)

// mostWorkers is the maximum number of workers of a scaled group.
const mostWorkers = 10_000

func (c Config) withKubernetesDefaults() (Config, error) {
	c.Kind = cmp.Or(c.Kind, Deployment)
	c.Log = cmp.Or(c.Log, slog.Default())
	t, err := c.decodeTemplate()
	if err != nil {
		return c, err
	}
	c.Container = cmp.Or(c.Container, t.Spec.Containers[0].Name)
	i := slices.IndexFunc(t.Spec.Containers, func(o templateContainer) bool { return o.Name == c.Container })
	if i < 0 {
		return c, rouse.Refuse("container", c.Container, "is none of the template's containers",
			"name one, or leave it out for the first")
	}
	if slices.ContainsFunc(t.Spec.Containers[i].Env, func(e struct{ Name string }) bool { return e.Name == "WORKER_ID" }) {
		return c, rouse.Refuse("template", "WORKER_ID", "is given to the worker by the driver", "leave it out")
	}
	if h := c.Scaling.HPA; h != nil {
		copied := *h
		copied.Min, copied.TargetCPU = cmp.Or(h.Min, 1), cmp.Or(h.TargetCPU, 80)
		c.Scaling.HPA = &copied
	}
	if k := c.Scaling.KEDA; k != nil {
		copied := *k
		copied.Value, copied.Mode, copied.Protocol = cmp.Or(k.Value, 1), cmp.Or(k.Mode, modeLength),
			cmp.Or(k.Protocol, "auto")
		if k.Authentication == "" {
			copied.HostFromEnv = cmp.Or(k.HostFromEnv, "WORKER_AMQP_URI")
		}
		c.Scaling.KEDA = &copied
	}
	return c, nil
}

// podTemplate is the part of a template that the driver reads. The API server checks the rest when it is
// applied.
type podTemplate struct {
	Metadata struct{ Labels, Annotations map[string]string }
	Spec     struct {
		Containers    []templateContainer
		RestartPolicy string
	}
}

type templateContainer struct {
	Name string
	Env  []struct{ Name string }
}

// decodeTemplate decodes the part of the template that is read here.
func (c Config) decodeTemplate() (*podTemplate, error) {
	const cure = "write the template of a pod as in a Deployment: metadata, and a spec with containers"
	if len(c.Template) == 0 {
		return nil, rouse.Refuse("template", "", "is missing", cure)
	}
	for name := range c.Template {
		if name != "metadata" && name != "spec" {
			return nil, rouse.Refuse("template", name, "is no field of a template of a pod", cure)
		}
	}
	t := &podTemplate{}
	text, err := json.Marshal(c.Template)
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	switch {
	case err != nil:
		return nil, rouse.Refuse("template", "", "is no template of a pod: "+err.Error(), cure)
	case len(t.Spec.Containers) == 0:
		return nil, rouse.Refuse("template", "", "has no containers", cure)
	case t.Spec.RestartPolicy != "" && t.Spec.RestartPolicy != "Always":
		return nil, rouse.Refuse("template", t.Spec.RestartPolicy, "is no restart policy for workers",
			"leave restartPolicy out: they are always started again")
	}
	for _, m := range []map[string]string{t.Metadata.Labels, t.Metadata.Annotations} {
		if err := notOurs("template", m); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// notOurs refuses labels or annotations that the driver sets itself.
func notOurs(field string, m map[string]string) error {
	for name := range m {
		if strings.HasPrefix(name, ownPrefix) || name == labelManagedBy {
			return rouse.Refuse(field, name, "is given by the driver itself", "use another name")
		}
	}
	return nil
}

// checkKubernetesConfig validates the configuration, which has its defaults.
func (c Config) checkKubernetesConfig() error {
	if !kubelink.IsLabel(c.Namespace) {
		return rouse.Refuse("namespace", c.Namespace, "is no name of a namespace",
			"write lowercase letters, digits and -, such as workers")
	}
	if c.Instance == "" {
		return rouse.Refuse("instance", "", "is missing", "give this rouse a name that no other in the namespace has")
	}
	if !kubelink.IsLabel(c.Instance) {
		return rouse.Refuse("instance", c.Instance, "is no label of DNS",
			"write lowercase letters, digits and -, such as rouse")
	}
	if c.Kind != Deployment && c.Kind != StatefulSet {
		return rouse.Refuse("kind", c.Kind, "is no kind of workloads", "write Deployment or StatefulSet")
	}
	for name, value := range c.Labels {
		if !kubelink.IsLabelValue(value) {
			return rouse.Refuse("labels", name+": "+value, "is no label", "write at most 63 letters, digits, - _ and .")
		}
	}
	for field, m := range map[string]map[string]string{"labels": c.Labels, "annotations": c.Annotations} {
		if err := notOurs(field, m); err != nil {
			return err
		}
		for name := range m {
			if !kubelink.IsQualifiedName(name) {
				return rouse.Refuse(field, name, "is no name of a label or an annotation",
					"write one such as team, or example.com/team")
			}
		}
	}
	for name, value := range c.Env {
		if name == "WORKER_ID" || name == "" || strings.Contains(name, "=") || strings.Contains(value, "\x00") {
			return rouse.Refuse("env", name, "cannot be given to workers", "use another name, and a value without a NUL")
		}
	}
	return c.Scaling.checkScaling()
}

func (s Scaling) checkScaling() error {
	h, k := s.HPA, s.KEDA
	switch {
	case h != nil && k != nil:
		return rouse.Refuse("scaling", "", "has both hpa and keda", "choose one")
	case h != nil && (h.Min < 1 || h.Min > h.Max || h.Max > mostWorkers):
		return rouse.Refuse("hpa", fmt.Sprintf("min %d, max %d", h.Min, h.Max), "is no range of workers",
			fmt.Sprintf("give 1 <= min <= max <= %d", mostWorkers))
	case h != nil && (h.TargetCPU < 1 || h.TargetCPU > 10_000):
		return rouse.Refuse("target_cpu", fmt.Sprint(h.TargetCPU), "is no percentage of the requested processor time",
			"give 1 to 10000")
	case k == nil:
		return nil
	case k.Min < 0 || k.Max < 1 || k.Min > k.Max || k.Max > mostWorkers:
		return rouse.Refuse("keda", fmt.Sprintf("min %d, max %d", k.Min, k.Max), "is no range of workers",
			fmt.Sprintf("give 0 <= min <= max <= %d, with max at least 1", mostWorkers))
	case !(k.Value > 0) || math.IsInf(k.Value, 0):
		return rouse.Refuse("value", fmt.Sprint(k.Value), "is no number of requests for a worker", "give a number above 0")
	case !(k.ActivationValue >= 0) || math.IsInf(k.ActivationValue, 0):
		return rouse.Refuse("activation_value", fmt.Sprint(k.ActivationValue), "is no number of requests", "give 0 or more")
	case k.Mode != modeLength && k.Mode != modeRate:
		return rouse.Refuse("mode", k.Mode, "is no mode of KEDA's trigger", "write QueueLength or MessageRate")
	case k.Protocol != "auto" && k.Protocol != "amqp" && k.Protocol != "http":
		return rouse.Refuse("protocol", k.Protocol, "is no protocol of KEDA's trigger", "write auto, amqp or http")
	case k.Mode == modeRate && k.Protocol == "amqp":
		return rouse.Refuse("protocol", k.Protocol, "does not tell rates",
			"write http, with an address of the management plugin")
	case k.Authentication != "" && k.HostFromEnv != "":
		return rouse.Refuse("host_from_env", k.HostFromEnv, "conflicts with authentication, which has the address",
			"leave one of them out")
	case k.Cluster && k.Authentication == "":
		return rouse.Refuse("authentication_cluster", "true", "is there without an authentication",
			"name the ClusterTriggerAuthentication")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"polling_interval", k.PollingInterval}, {"cooldown", k.Cooldown}} {
		if d.value < 0 || d.value%time.Second != 0 || d.value > 24*time.Hour {
			return rouse.Refuse(d.name, d.value.String(), "is no number of whole seconds up to a day", "give one such as 30s")
		}
	}
	if k.Authentication != "" && !kubelink.IsSubdomain(k.Authentication) {
		return rouse.Refuse("authentication", k.Authentication, "is no name of an object",
			"name a TriggerAuthentication of the namespace")
	}
	return nil
}
