package config

import (
	"log/slog"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// storeTransport is the transport of pools whose requests are in rouse's own store, under rouse serve.
const storeTransport = "store"

// checkTransport refuses settings that the transport does not have.
func (e *poolEntry) checkTransport() error {
	if e.Prewarm < 0 || e.Prewarm > maxPrewarm {
		return rouse.Refuse("prewarm", e.Prewarm.String(), "is out of bounds", "give up to "+maxPrewarm.String())
	}
	switch e.Transport {
	case "", "rabbitmq":
		return nil
	case storeTransport:
	default:
		return rouse.Refuse("transport", e.Transport, "is no transport", "write rabbitmq or store")
	}
	for _, given := range []struct {
		name string
		is   bool
	}{{"amqp", e.AMQP != ""}, {"management", e.Management != ""}, {"worker_amqp", e.WorkerAMQP != ""},
		{"max_work", e.MaxWork != 0}, {"message_ttl", e.MessageTTL != 0},
		{"delivery_limit", e.DeliveryLimit != 0}, {"consumer_timeout", e.ConsumerTimeout != 0},
		{"max_length", e.MaxLength != 0},
		{"poison_limit", e.PoisonLimit != 0}, {"queue_type", e.QueueType != ""}, {"prefetch", e.Prefetch != 0}} {
		if given.is {
			return rouse.Refuse(given.name, "", "is of pools on RabbitMQ", "leave it out: each request sets such things itself")
		}
	}
	return nil
}

const maxPrewarm = time.Hour

// WithoutTimers refuses settings that need rouse serve, because rouse pool has no timers.
func (f *PoolsFile) WithoutTimers() error {
	for i := range f.Pools {
		e := &f.Pools[i]
		switch {
		case e.Transport == storeTransport:
			return f.placeError(i, rouse.Refuse("transport", e.Transport, "is that of rouse serve",
				"run rouse serve --pools with the file, or leave transport out"))
		case e.Prewarm != 0:
			return f.placeError(i, rouse.Refuse("prewarm", e.Prewarm.String(), "is about timers, which rouse serve has",
				"run rouse serve --pools with the file, or leave it out"))
		}
	}
	return nil
}

// LoadPools returns the pools that the setting names.
func (c *Config) LoadPools() ([]pool.Setup, error) {
	if c.PoolsFile == "" {
		return nil, nil
	}
	file, err := ReadPools(c.PoolsFile)
	if err != nil {
		return nil, err
	}
	return file.PoolSetups(), nil
}

// PoolSetups returns the pools of the file as those of a node.
func (f *PoolsFile) PoolSetups() []pool.Setup {
	list := make([]pool.Setup, len(f.Pools))
	for i := range f.Pools {
		e := &f.Pools[i]
		list[i] = pool.Setup{Config: e.poolConfig(), Prewarm: e.Prewarm, Stall: e.StallTimeout,
			Open: func(log *slog.Logger) (driver.Driver, error) {
				d, err := e.newDriver(log)
				if err != nil {
					return nil, f.placeError(i, err)
				}
				return d, nil
			}}
		if e.Transport != storeTransport {
			list[i].Requests = e.transportConfig().Open
		}
	}
	return list
}

// GracePeriod is how long the workers of all pools may take to end.
func (f *PoolsFile) GracePeriod() time.Duration {
	longest := time.Duration(0)
	for i := range f.Pools {
		longest = max(longest, f.Pools[i].workerDrainTime())
	}
	return longest + 5*time.Second
}
