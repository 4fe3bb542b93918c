package docker

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Config configures the engine, the containers of the workers, and their supervision.
type Config struct {
	Pool string // the name of the pool

	// Instance distinguishes this rouse from others on the same engine, whose pools may have the same names.
	// Managers of one pool that share an engine use the same value.
	Instance string

	// Host is the address of the engine, as unix:///path or tcp://host:port; if empty DOCKER_HOST, and
	// without that unix:///var/run/docker.sock. DOCKER_CERT_PATH and DOCKER_TLS_VERIFY configure TLS.
	Host string

	// Shared means that other managers of the pool use the same engine, and so manage its workers when they
	// lead.
	Shared bool

	Template
	PassEnv []string // variables of this process that workers get

	Pull        Pull          // Missing if empty
	PullTimeout time.Duration // timeout of a pull; 10m if zero
	CallTimeout time.Duration // timeout of any other call of the engine; 30s if zero

	Drain        time.Duration // from SIGTERM to SIGKILL; 30s if zero
	FirstPause   time.Duration // initial backoff before a worker that ended by itself is restarted; 200ms if zero
	LongestPause time.Duration // maximum backoff; 1m if zero
	Stable       time.Duration // a worker that ran so long resets the backoff; 10s if zero

	Log *slog.Logger // slog.Default if nil
}

// Template is the common part of the containers of workers. A worker with a different template is replaced.
type Template struct {
	Image      string
	Entrypoint []string          // the image's if empty
	Command    []string          // the image's if empty; arguments of the entrypoint, if there is one
	Dir        string            // where they run; the image's if empty
	User       string            // the image's if empty
	Env        map[string]string // variables
	Labels     map[string]string // in addition to those of rouse

	Networks   []string // of the engine, or only host or none; the engine's default if empty
	ExtraHosts []string // lines for their /etc/hosts, as name:address

	Memory    int64   // bytes; no limit if zero
	CPUs      float64 // no limit if zero
	PidsLimit int64   // processes and threads; no limit if zero

	Mounts      []Mount
	ReadOnly    bool     // whether the root file system is
	CapDrop     []string // capabilities that are dropped
	SecurityOpt []string // such as no-new-privileges
	Init        bool     // whether the engine's init is their first process, which passes on signals and collects orphans

	LogDriver  string            // the engine's default if empty
	LogOptions map[string]string // of the log driver
}

// Mount is a directory, volume or tmpfs in a container.
type Mount struct {
	Type     string // bind, volume or tmpfs
	Source   string // a path on the engine's machine, or the name of a volume; empty for tmpfs
	Target   string // an absolute path in the container
	ReadOnly bool
}

// Pull is when the image is pulled from its registry. Pulls use no credentials.
type Pull string

// The pull policies.
const (
	Missing Pull = "missing" // if the engine does not have it
	// also if it does, when workers of a key are started and the last pull is more than a minute old
	Always Pull = "always"
	Never  Pull = "never"
)

// names are the valid names of instances, which are prefixes of the names of containers.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c Config) withDockerDefaults() (Config, error) {
	if c.Host == "" {
		c.Host = os.Getenv("DOCKER_HOST")
	}
	if c.Host == "" {
		c.Host = "unix:///var/run/docker.sock"
	}
	c.Pull = cmp.Or(c.Pull, Missing)
	if err := c.checkDockerConfig(); err != nil {
		return c, err
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"drain_timeout", &c.Drain, 30 * time.Second}, {"first_pause", &c.FirstPause, 200 * time.Millisecond},
		{"longest_pause", &c.LongestPause, time.Minute}, {"stable_after", &c.Stable, 10 * time.Second},
		{"pull_timeout", &c.PullTimeout, 10 * time.Minute}, {"call_timeout", &c.CallTimeout, 30 * time.Second}} {
		if *d.value < 0 {
			return c, rouse.Refuse(d.name, d.value.String(), "is negative", "give a duration such as "+d.def.String())
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	c.Log = cmp.Or(c.Log, slog.Default()).With("pool", c.Pool)
	return c, nil
}

func (c *Config) checkDockerConfig() error {
	scheme, address, _ := strings.Cut(c.Host, "://")
	switch {
	case scheme != "unix" && scheme != "tcp" || address == "":
		return rouse.Refuse("host", c.Host, "is no address of an engine",
			"write unix:///var/run/docker.sock or tcp://host:port; for an engine behind ssh, forward its socket")
	case c.Instance == "":
		return rouse.Refuse("instance", "", "is missing",
			"give a name that no other rouse on this engine has, such as prod; it identifies its containers")
	case !names.MatchString(c.Instance):
		return rouse.Refuse("instance", rouse.Shorten(c.Instance, 128), "cannot begin the names of containers",
			"use up to 64 letters, digits, _ . and -, a letter or digit first")
	case c.Image == "":
		return rouse.Refuse("image", "", "is missing",
			"name the image that workers run, such as registry.example.com/worker:3")
	case c.Pull != Missing && c.Pull != Always && c.Pull != Never:
		return rouse.Refuse("pull", string(c.Pull), "is no policy of pulling", "write missing, always or never")
	}
	return c.Template.checkContainerTemplate()
}

func (t *Template) checkContainerTemplate() error {
	const minMemory = 6 << 20 // the engine refuses less
	switch {
	case t.Memory != 0 && t.Memory < minMemory:
		return rouse.Refuse("memory", fmt.Sprint(t.Memory), "is less than engines allow", "give at least 6m")
	case t.CPUs < 0:
		return rouse.Refuse("cpus", fmt.Sprint(t.CPUs), "is negative",
			"give how many processors a worker may use, such as 0.5")
	case t.PidsLimit < 0:
		return rouse.Refuse("pids_limit", fmt.Sprint(t.PidsLimit), "is negative",
			"give how many processes and threads a worker may have")
	case t.LogDriver == "" && len(t.LogOptions) > 0:
		return rouse.Refuse("log_options", "", "are given without a log driver", "name it in log_driver, such as json-file")
	}
	for name := range t.Labels {
		if name == "" || strings.HasPrefix(name, labelPrefix) {
			return rouse.Refuse("labels", name, "is no label for workers", "use one that does not begin with "+labelPrefix)
		}
	}
	for name := range t.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return rouse.Refuse("env", name, "is no name of a variable", "use letters, digits and _")
		}
	}
	for _, n := range t.Networks {
		switch {
		case n == "":
			return rouse.Refuse("networks", "", "has an empty name", "leave networks out for the engine's default")
		case len(t.Networks) > 1 && (n == "host" || n == "none" || strings.HasPrefix(n, "container:")):
			return rouse.Refuse("networks", n, "goes with no other network", "leave it alone, or leave it out")
		}
	}
	for _, h := range t.ExtraHosts {
		if name, address, _ := strings.Cut(h, ":"); name == "" || address == "" {
			return rouse.Refuse("extra_hosts", h, "is no name and address", "write them as name:address")
		}
	}
	for _, m := range t.Mounts {
		if err := m.checkMount(); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mount) checkMount() error {
	switch {
	case m.Type != "bind" && m.Type != "volume" && m.Type != "tmpfs":
		return rouse.Refuse("mounts: type", m.Type, "is no type of mounts", "write bind, volume or tmpfs")
	case !strings.HasPrefix(m.Target, "/") || m.Target == "/":
		return rouse.Refuse("mounts: target", m.Target, "is no absolute path below /", "say where in the container it is")
	case m.Type == "bind" && !strings.HasPrefix(m.Source, "/"):
		return rouse.Refuse("mounts: source", m.Source, "is no absolute path",
			"give one of the engine's machine, or write type: volume")
	case m.Type == "tmpfs" && m.Source != "":
		return rouse.Refuse("mounts: source", m.Source, "is given for memory", "leave it out")
	}
	return nil
}
