package config

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/docker/go-units"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/docker"
)

// dockerEntry configures the containers of a pool's workers.
type dockerEntry struct {
	Instance     string            `yaml:"instance"`
	Host         string            `yaml:"host"`
	Shared       bool              `yaml:"shared"`
	Image        string            `yaml:"image"`
	Entrypoint   []string          `yaml:"entrypoint"`
	Command      []string          `yaml:"command"`
	Dir          string            `yaml:"dir"`
	User         string            `yaml:"user"`
	Env          map[string]string `yaml:"env"`
	PassEnv      []string          `yaml:"pass_env"`
	Labels       map[string]string `yaml:"labels"`
	Networks     []string          `yaml:"networks"`
	ExtraHosts   []string          `yaml:"extra_hosts"`
	Memory       string            `yaml:"memory"`
	CPUs         float64           `yaml:"cpus"`
	PidsLimit    int64             `yaml:"pids_limit"`
	Mounts       []dockerMount     `yaml:"mounts"`
	ReadOnly     bool              `yaml:"read_only"`
	CapDrop      []string          `yaml:"cap_drop"`
	SecurityOpt  []string          `yaml:"security_opt"`
	Init         bool              `yaml:"init"`
	LogDriver    string            `yaml:"log_driver"`
	LogOptions   map[string]string `yaml:"log_options"`
	Pull         string            `yaml:"pull"`
	PullTimeout  time.Duration     `yaml:"pull_timeout"`
	CallTimeout  time.Duration     `yaml:"call_timeout"`
	DrainTimeout time.Duration     `yaml:"drain_timeout"`
	FirstPause   time.Duration     `yaml:"first_pause"`
	LongestPause time.Duration     `yaml:"longest_pause"`
	StableAfter  time.Duration     `yaml:"stable_after"`
}

type dockerMount struct {
	Type     string `yaml:"type"`
	Source   string `yaml:"source"`
	Target   string `yaml:"target"`
	ReadOnly bool   `yaml:"read_only"`
}

// drainTimeout is how long workers may take to end.
func (e *dockerEntry) drainTimeout() time.Duration { return cmp.Or(e.DrainTimeout, defaultDrain) }

func (e *dockerEntry) newDriver(pool string, log *slog.Logger) (driver.Driver, error) {
	var memory int64
	if e.Memory != "" {
		var err error
		if memory, err = units.RAMInBytes(e.Memory); err != nil {
			return nil, rouse.Refuse("memory", e.Memory, "is no size", "write one with its unit, such as 512m or 2g")
		}
	}
	instance, err := expandSetting("instance", e.Instance)
	if err != nil {
		return nil, err
	}
	mounts := make([]docker.Mount, len(e.Mounts))
	for i, m := range e.Mounts {
		mounts[i] = docker.Mount(m)
	}
	return docker.New(docker.Config{Pool: pool, Instance: instance, Host: e.Host, Shared: e.Shared,
		Template: docker.Template{Image: e.Image, Entrypoint: e.Entrypoint, Command: e.Command, Dir: e.Dir, User: e.User,
			Env: e.Env, Labels: e.Labels,
			Networks: e.Networks, ExtraHosts: e.ExtraHosts, Memory: memory, CPUs: e.CPUs, PidsLimit: e.PidsLimit, Mounts: mounts,
			ReadOnly: e.ReadOnly,
			CapDrop:  e.CapDrop, SecurityOpt: e.SecurityOpt, Init: e.Init, LogDriver: e.LogDriver, LogOptions: e.LogOptions},
		PassEnv: e.PassEnv, Pull: docker.Pull(e.Pull), PullTimeout: e.PullTimeout, CallTimeout: e.CallTimeout,
		Drain: e.drainTimeout(), FirstPause: e.FirstPause, LongestPause: e.LongestPause, Stable: e.StableAfter, Log: log})
}
