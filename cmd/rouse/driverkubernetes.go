package main

import (
	"log/slog"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/kubernetes"
)

// kubernetesEntry configures the workloads of a pool's groups.
type kubernetesEntry struct {
	Kubeconfig  string            `yaml:"kubeconfig"`
	Namespace   string            `yaml:"namespace"`
	Instance    string            `yaml:"instance"`
	Kind        string            `yaml:"kind"`
	Template    map[string]any    `yaml:"template"`
	Container   string            `yaml:"container"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
	Env         map[string]string `yaml:"env"`
	PassEnv     []string          `yaml:"pass_env"`
	OmitEnv     []string          `yaml:"omit_env"`
	Scaling     scalingEntry      `yaml:"scaling"`
}

// scalingEntry has at most one member.
type scalingEntry struct {
	HPA  *hpaEntry  `yaml:"hpa"`
	KEDA *kedaEntry `yaml:"keda"`
}

type hpaEntry struct {
	Min       int `yaml:"min"`
	Max       int `yaml:"max"`
	TargetCPU int `yaml:"target_cpu"`
}

type kedaEntry struct {
	Min                   int           `yaml:"min"`
	Max                   int           `yaml:"max"`
	Value                 float64       `yaml:"value"`
	ActivationValue       float64       `yaml:"activation_value"`
	Mode                  string        `yaml:"mode"`
	Protocol              string        `yaml:"protocol"`
	PollingInterval       time.Duration `yaml:"polling_interval"`
	Cooldown              time.Duration `yaml:"cooldown"`
	Authentication        string        `yaml:"authentication"`
	AuthenticationCluster bool          `yaml:"authentication_cluster"`
	HostFromEnv           string        `yaml:"host_from_env"`
}

func (e *kubernetesEntry) newDriver(p *poolEntry, log *slog.Logger) (driver.Driver, error) {
	instance, err := expandSetting("instance", e.Instance)
	if err != nil {
		return nil, err
	}
	c := kubernetes.Config{Pool: p.Name, Kubeconfig: e.Kubeconfig, Namespace: e.Namespace, Instance: instance, Kind: e.Kind, Template: e.Template,
		Container: e.Container, Labels: e.Labels, Annotations: e.Annotations, Env: e.Env, PassEnv: e.PassEnv, OmitEnv: e.OmitEnv, Log: log}
	if h := e.Scaling.HPA; h != nil {
		c.Scaling.HPA = &kubernetes.HPA{Min: h.Min, Max: h.Max, TargetCPU: h.TargetCPU}
	}
	if k := e.Scaling.KEDA; k != nil {
		if p.Transport == storeTransport {
			return nil, rouse.Refuse("keda", "", "scales by a queue of RabbitMQ, and the transport store has none", "leave it out, or write hpa")
		}
		c.Scaling.KEDA = &kubernetes.KEDA{Min: k.Min, Max: k.Max, Value: k.Value, ActivationValue: k.ActivationValue, Mode: k.Mode, Protocol: k.Protocol,
			PollingInterval: k.PollingInterval, Cooldown: k.Cooldown, Authentication: k.Authentication, Cluster: k.AuthenticationCluster, HostFromEnv: k.HostFromEnv}
	}
	return kubernetes.New(c)
}
