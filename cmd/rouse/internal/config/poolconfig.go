package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/amqp"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/kubernetes"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/internal/pool/driver/systemd"
	"github.com/rousehq/rouse/schedule"
)

// PoolsFile is the file of rouse pool. A test compares it with docs/pools.md.
type PoolsFile struct {
	Listen   string      `yaml:"listen"`
	Insecure bool        `yaml:"insecure"` // Listen may be an address that other machines reach
	TLSCert  string      `yaml:"tls_cert"` // these as the settings of rouse serve
	TLSKey   string      `yaml:"tls_key"`
	ClientCA string      `yaml:"tls_client_ca"` // callers have to present a certificate
	Hosts    []string    `yaml:"hosts"`         // as the setting of rouse serve
	Pools    []poolEntry `yaml:"pools"`

	places *poolPlaces
}

type poolEntry struct {
	Name            string        `yaml:"name"`
	Transport       string        `yaml:"transport"` // rabbitmq if empty; store for rouse serve
	AMQP            string        `yaml:"amqp"`
	Management      string        `yaml:"management"`
	WorkerAMQP      string        `yaml:"worker_amqp"`
	UnbindDelay     time.Duration `yaml:"unbind_delay"`
	StopDelay       time.Duration `yaml:"stop_delay"`
	ExtraLifetime   time.Duration `yaml:"extra_lifetime"`
	MaxWork         time.Duration `yaml:"max_work"`
	MessageTTL      time.Duration `yaml:"message_ttl"`
	DeliveryLimit   int           `yaml:"delivery_limit"`
	ConsumerTimeout time.Duration `yaml:"consumer_timeout"`
	StallTimeout    time.Duration `yaml:"stall_timeout"`
	MaxLength       int           `yaml:"max_length"`
	PoisonLimit     int           `yaml:"poison_limit"`
	QueueType       string        `yaml:"queue_type"`
	Workers         int           `yaml:"workers"`
	MaxGroups       int           `yaml:"max_groups"`
	MaxNamespace    int           `yaml:"max_groups_per_namespace"`
	MaxWorkers      int           `yaml:"max_workers"`
	MaxStarts       int           `yaml:"max_starts_per_second"`
	Namespaces      string        `yaml:"namespaces"`
	Pinned          []string      `yaml:"pinned"`
	Windows         []windowEntry `yaml:"windows"`
	Prefetch        int           `yaml:"prefetch"`
	Prewarm         time.Duration `yaml:"prewarm"` // of the transport store
	Driver          driverEntry   `yaml:"driver"`
}

// windowEntry is a time span in which workers may run.
type windowEntry struct {
	Schedule string        `yaml:"schedule"`
	Zone     string        `yaml:"zone"` // UTC if empty
	For      time.Duration `yaml:"for"`

	parsed rouse.Schedule
}

// parseWindow parses the schedule.
func (e *windowEntry) parseWindow() error {
	s, err := schedule.Parse(e.Schedule, schedule.Options{Timezone: e.Zone})
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		for i := range inv.Problems {
			if p := &inv.Problems[i]; p.Field == "timezone" {
				p.Field = "zone"
			}
		}
		return inv
	}
	if err == nil && s.OneShot() {
		return rouse.Refuse("schedule", e.Schedule, "has one time", `give one that repeats, such as "0 22 * * MON-FRI"`)
	}
	e.parsed = s
	return err
}

// driverEntry has exactly one member.
type driverEntry struct {
	Subprocess *subprocess.Config `yaml:"subprocess"`
	Docker     *dockerEntry       `yaml:"docker"`
	Systemd    *systemd.Config    `yaml:"systemd"`
	Kubernetes *kubernetes.Config `yaml:"kubernetes"`
	Noop       *struct{}          `yaml:"noop"`
}

// countDrivers returns how many drivers there are.
func (e *driverEntry) countDrivers() int {
	n := 0
	for _, there := range []bool{e.Subprocess != nil, e.Docker != nil, e.Systemd != nil, e.Kubernetes != nil,
		e.Noop != nil} {
		if there {
			n++
		}
	}
	return n
}

// Defaults of a pools file.
const (
	defaultPoolListen = "127.0.0.1:7414"
	defaultPoolDelay  = 10 * time.Minute
	defaultMaxWork    = time.Hour // more than RabbitMQ's own consumer_timeout
	defaultDrain      = 30 * time.Second
)

// ReadPools reads a pools file. Errors name the line.
func ReadPools(name string) (*PoolsFile, error) {
	body, err := os.ReadFile(name)
	if err != nil {
		return nil, rouse.Refuse("config", name, "cannot be read: "+cli.BareFileError(err),
			"name the YAML file that describes the pools")
	}
	f := &PoolsFile{Listen: defaultPoolListen, places: readPlaces(name, body)}
	if err := f.places.checkPoolValues(); err != nil { // before the decoder, whose errors name types of Go and no field
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(body), yaml.Strict())
	if err := decoder.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		line, what := 1, err.Error()
		if told, ok := errors.AsType[yaml.Error](err); ok {
			what = told.GetMessage()
			if token := told.GetToken(); token != nil {
				line = token.Position.Line
			}
		}
		return nil, rouse.Refuse(fmt.Sprintf("%s:%d", name, line), "", what, "see docs/pools.md for what there is")
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, rouse.Refuse(name, "", "has more than one document", "write one file for each")
	}
	if len(f.Pools) == 0 {
		return nil, rouse.Refuse(name+": pools", "", "is empty", "describe at least one pool")
	}
	seen := map[string]bool{}
	for i := range f.Pools {
		e := &f.Pools[i]
		err := e.completePool()
		if err == nil {
			err = e.checkPool()
		}
		if err == nil && seen[e.Name] {
			err = rouse.Refuse("name", e.Name, "is the name of two pools", "give each its own")
		}
		if err != nil {
			return nil, f.placeError(i, err)
		}
		seen[e.Name] = true
	}
	return f, nil
}

// placeError adds the file, line and pool to an error.
func (f *PoolsFile) placeError(i int, err error) error { return f.places.locateProblems(i, 0, err) }

// checkPool refuses settings that the manager or the transport of the pool would refuse later.
func (e *poolEntry) checkPool() error {
	log := slog.New(slog.DiscardHandler)
	m, err := pool.NewManager(e.managerConfig(noop.Driver{}, log, pool.NewRegistry(prometheus.NewRegistry())))
	if err == nil && e.Transport != storeTransport {
		_, err = amqp.New(e.transportConfig(), m)
	}
	return err
}

// completePool expands variables and sets defaults.
func (e *poolEntry) completePool() error {
	for _, u := range []struct {
		name  string
		value *string
	}{{"amqp", &e.AMQP}, {"management", &e.Management}, {"worker_amqp", &e.WorkerAMQP}} {
		var err error
		if *u.value, err = expandSetting(u.name, *u.value); err != nil {
			return err
		}
	}
	if err := e.checkTransport(); err != nil {
		return err
	}
	switch {
	case e.AMQP == "" && e.Transport != storeTransport:
		return rouse.Refuse("amqp", "", "is missing",
			"give the URL of a RabbitMQ, such as amqp://user:password@host:5672/vhost")
	case e.QueueType != "" && e.QueueType != "quorum" && e.QueueType != "classic":
		return rouse.Refuse("queue_type", e.QueueType, "is no type of request queues", "write quorum or classic")
	case e.Driver.countDrivers() != 1:
		return rouse.Refuse("driver", "", "is not exactly one",
			"write subprocess: with a command below it, or another one of docs/pools.md")
	}
	for i := range e.Windows {
		if err := e.Windows[i].parseWindow(); err != nil {
			return rouse.Under(fmt.Sprintf("windows[%d]", i), err)
		}
	}
	for _, d := range []*time.Duration{&e.UnbindDelay, &e.StopDelay} {
		if *d == 0 {
			*d = defaultPoolDelay
		}
	}
	if e.MaxWork == 0 && e.Transport != storeTransport {
		e.MaxWork = defaultMaxWork
	}
	if s := e.Driver.Subprocess; s != nil && s.Drain == 0 {
		s.Drain = defaultDrain
	}
	return nil
}

// expandSetting expands the environment variables in a setting.
func expandSetting(setting, value string) (string, error) {
	var missing string
	value = os.Expand(value, func(name string) string {
		value, ok := os.LookupEnv(name)
		if !ok {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", rouse.Refuse(setting, "", "names the variable "+missing+", which is not set", "set it")
	}
	return value, nil
}

// workerDrainTime is how long the workers of a pool may take to end.
func (e *poolEntry) workerDrainTime() time.Duration {
	if e.Driver.Subprocess != nil {
		return e.Driver.Subprocess.Drain
	}
	if e.Driver.Docker != nil {
		return e.Driver.Docker.drainTimeout()
	}
	return 0
}

func (e *poolEntry) newDriver(log *slog.Logger) (driver.Driver, error) {
	switch {
	case e.Driver.Docker != nil:
		return e.Driver.Docker.newDriver(e.Name, log)
	case e.Driver.Systemd != nil:
		c := *e.Driver.Systemd
		c.Pool, c.Log = e.Name, log
		return systemd.New(c)
	case e.Driver.Kubernetes != nil:
		return e.newKubernetes(*e.Driver.Kubernetes, log)
	case e.Driver.Noop != nil:
		return noop.Driver{}, nil
	}
	c := *e.Driver.Subprocess
	c.Pool, c.Log = e.Name, log
	return subprocess.New(c)
}

// transportConfig returns the settings of RabbitMQ.
func (e *poolEntry) transportConfig() amqp.Config {
	return amqp.Config{URL: e.AMQP, Management: e.Management, WorkerURL: e.WorkerAMQP, Classic: e.QueueType == "classic",
		MessageTTL:    e.MessageTTL,
		DeliveryLimit: e.DeliveryLimit, MaxLength: e.MaxLength, ConsumerTimeout: e.ConsumerTimeout,
		StallTimeout: e.StallTimeout, PoisonLimit: e.PoisonLimit, Prefetch: e.Prefetch}
}

// managerConfig returns the other settings.
func (e *poolEntry) managerConfig(d driver.Driver, log *slog.Logger, m *pool.Registry) pool.Config {
	c := e.poolConfig()
	c.Driver, c.Log, c.Metrics = d, log, m.Pool(strings.Clone(e.Name))
	return c
}

// poolConfig returns the configuration of a pool.
func (e *poolEntry) poolConfig() pool.Config {
	var windows []pool.Window
	for _, w := range e.Windows {
		windows = append(windows, pool.Window{Schedule: w.parsed, For: w.For})
	}
	return pool.Config{Name: e.Name, Windows: windows, Delays: pool.Delays{Unbind: e.UnbindDelay, Stop: e.StopDelay},
		ExtraLifetime: e.ExtraLifetime, MaxWork: e.MaxWork, Namespaces: e.Namespaces, Workers: e.Workers,
		Limits: pool.Limits{Groups: e.MaxGroups, NamespaceOwned: e.MaxNamespace, Workers: e.MaxWorkers, Starts: e.MaxStarts},
		Pinned: e.Pinned}
}
