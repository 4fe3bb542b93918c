// Package node puts store, strategy, engine, sinks and server together from a configuration. It is what `rouse serve` runs.
//
//	store ◄── engine ──► breaker ──► webhook          server ──► engine
//	             └─────► stream ◄────── subscribers ──────┘
//
// It ends in the order in which things need each other: the engine stops firing and waits for deliveries while the server
// still takes their acknowledgements; then the server drains its requests; the store is closed last.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/claim"
	"github.com/rousehq/rouse/engine"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/server"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/stream"
	"github.com/rousehq/rouse/sink/webhook"
)

// Run serves until ctx ends, and returns when everything has ended; nil if that went well. ready is called once, when the node
// listens, with the addresses of the API and of the admin listener ("" if there is none).
func Run(ctx context.Context, cfg Config, log *slog.Logger, ready func(api, admin string)) (err error) {
	if err := cfg.Check(); err != nil {
		return err
	}
	store, err := cfg.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	secretFile := cfg.SecretFile
	if secretFile == "" {
		secretFile = filepath.Join(cfg.Data, "webhook.secret")
	}
	secrets, err := openSecrets(secretFile)
	if err != nil {
		return err
	}
	api, admin, err := cfg.listen()
	if err != nil {
		return err
	}

	m := newMetrics(cfg.Version)
	hooks := webhook.New(webhook.Options{AllowPrivate: cfg.AllowPrivate, Secrets: secrets.get, HostConcurrency: cfg.HostConcurrency,
		UserAgent: "rouse/" + cfg.Version})
	defer hooks.Close()
	var eng *engine.Engine
	streams := stream.New(stream.Options{Now: func() rouse.Instant { return eng.Now() }})
	http := sink.NewBreaker(hooks, sink.BreakerOptions{})
	eng = engine.New(store, claim.NewSole(1), sink.Mux{"http": http, "https": http, "stream": streams}, engine.Options{
		Compile:       Compile,
		Ahead:         cfg.Ahead,
		MaxRows:       cfg.Window,
		MaxBytes:      int(cfg.WindowBytes),
		MaxDeliveries: cfg.MaxDeliveries,
		Grace:         cfg.Grace,
		RecordAge:     cfg.HistoryAge,
		MaxRecords:    cfg.HistoryMax,
		Events:        m.events(log),
	})
	m.watch(eng, store)
	srv := server.New(server.Options{Timers: eng, Subscriber: streams, Metrics: m.handler(), Live: eng.Healthy, Ready: eng.Healthy,
		Version: cfg.Version, Log: log, Grace: cfg.Grace})

	firing, endFiring := context.WithCancel(ctx)
	defer endFiring()
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	var wg sync.WaitGroup
	var engineErr, serverErr error
	wg.Go(func() {
		defer endServing()
		engineErr = eng.Run(firing)
		streams.Close() // subscriptions end, so that the server need not wait for them
	})
	wg.Go(func() { secrets.watch(firing, log) })
	ready(api.Addr().String(), addr(admin))
	serverErr = srv.Run(serving, api, admin)
	endFiring() // a server that broke stops the engine too
	wg.Wait()
	streams.Wait()
	return errors.Join(engineErr, serverErr)
}

// listen opens the listeners; admin is nil if there is none.
func (c *Config) listen() (api, admin net.Listener, err error) {
	if api, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, nil, fmt.Errorf("listen for the API: %w", err)
	}
	if c.Admin == "" {
		return api, nil, nil
	}
	if admin, err = net.Listen("tcp", c.Admin); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen for metrics and health: %w", err), api.Close())
	}
	return api, admin, nil
}

func addr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Compile turns a schedule's text into its times.
func Compile(text, timezone string, anchor rouse.Instant) (rouse.Schedule, error) {
	s, err := schedule.Parse(text, schedule.Options{Timezone: timezone, Anchor: anchor})
	if err != nil {
		return nil, err // not s: a nil *Schedule in an interface is not nil
	}
	return s, nil
}
