package config

import (
	"log/slog"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/kubernetes"
)

func (e *poolEntry) newKubernetes(c kubernetes.Config, log *slog.Logger) (driver.Driver, error) {
	var err error
	if c.Instance, err = expandSetting("instance", c.Instance); err != nil {
		return nil, err
	}
	if c.Scaling.KEDA != nil && e.Transport == storeTransport {
		return nil, rouse.Refuse("keda", "", "scales by a queue of RabbitMQ, and the transport store has none",
			"leave it out, or write hpa")
	}
	c.Pool, c.Log = e.Name, log
	return kubernetes.New(c)
}
