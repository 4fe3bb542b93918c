package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/amqp"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/server"
)

// poolCmd groups the commands for pools of keyed workers.
type poolCmd struct {
	Run     poolRunCmd     `cmd:"" default:"withargs" help:"Manage pools of workers, which are started by requests in RabbitMQ, until a signal."`
	Status  poolStatusCmd  `cmd:"" help:"Show the pools of a manager, or the groups of one."`
	Stop    poolStopCmd    `cmd:"" help:"Stop the group of a key; a request starts it again."`
	Restart poolRestartCmd `cmd:"" help:"Replace the workers of a key."`
	Pin     poolPinCmd     `cmd:"" help:"Keep the group of a key running, whether anybody asks for it or not."`
	Poison  poolPoisonCmd  `cmd:"" help:"List, show, replay or purge requests that workers died with."`
}

func (poolCmd) Help() string {
	return `A pool is workers of one kind. A request for a key without workers starts the group of workers of that key; a group that
gets no requests is stopped. docs/pools.md describes the protocol of clients and workers, and the file.

Examples:

    rouse pool --config pools.yaml
    rouse pool status core
    rouse pool restart core 42
    rouse pool poison list core`
}

// poolRunCmd manages pools until a signal.
type poolRunCmd struct {
	Config      string `help:"YAML file that describes the pools." default:"pools.yaml" placeholder:"FILE"`
	LogLevel    string `help:"Least level that is logged: debug, info, warn or error." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat   string `help:"Form of the log: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
	AddressFile string `help:"Write the address of status and metrics to this file once it is listened on." placeholder:"FILE"`
}

func (poolRunCmd) Help() string {
	return `SIGTERM and SIGINT end it in good order: another manager of the same pools takes over at once, and workers that are processes
of this one may finish what they have. A second signal ends it at once, and them.

Examples:

    rouse pool --config pools.yaml
    rouse pool run --config /etc/rouse/pools.yaml --log-format json`
}

// managed is a pool that this process manages.
type managed struct {
	driver    driver.Driver
	manager   *pool.Manager
	transport *amqp.Controller
}

// Run manages the pools.
func (c *poolRunCmd) Run(a *app) error {
	file, err := readPools(c.Config)
	if err != nil {
		return err
	}
	if err := file.withoutTimers(); err != nil {
		return err
	}
	if err := server.CheckListener("listen", file.Listen, defaultPoolListen, file.Insecure); err != nil {
		return rouse.Refuse(c.Config, "", err.Error(), "")
	}
	log := a.logger(&Config{LogLevel: c.LogLevel, LogFormat: c.LogFormat})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := pool.NewRegistry(registry)
	var pools []managed
	var patience time.Duration
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience+5*time.Second)
		defer cancel()
		var closing sync.WaitGroup
		for _, p := range pools {
			closing.Go(func() {
				if err := p.driver.Close(ctx); err != nil {
					log.Error("the workers of a pool cannot be stopped", "pool", p.manager.Config().Name, "error", err)
				}
			})
		}
		closing.Wait()
	}()
	var served []pool.Served
	for i := range file.Pools {
		e := &file.Pools[i]
		var p managed
		if p.driver, err = e.newDriver(log); err != nil {
			return file.in(i, err)
		}
		if p.manager, err = pool.NewManager(e.manager(p.driver, log, metrics)); err == nil {
			p.transport, err = amqp.New(e.transport(), p.manager)
		}
		if err != nil {
			_ = p.driver.Close(a.ctx) // it has no workers yet
			return file.in(i, err)
		}
		pools = append(pools, p)
		served = append(served, pool.Served{Manager: p.manager, Transport: p.transport})
		patience = max(patience, e.drain())
	}
	listener, err := net.Listen("tcp", file.Listen)
	if err != nil {
		return fmt.Errorf("listen for status and metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", pool.NewHandler(served))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if err := c.tell(a, listener.Addr().String(), len(pools)); err != nil {
		return errors.Join(err, listener.Close())
	}
	if c.AddressFile != "" {
		defer os.Remove(c.AddressFile)
	}
	stopped := context.AfterFunc(a.ctx, func() { a.note("stopping: workers may finish what they have; a second signal ends them") })
	defer stopped()
	return manage(a.ctx, pools, listener, server.Guard(mux, listener.Addr(), file.Hosts))
}

// manage runs the pools and their server until ctx ends or one of them fails.
func manage(ctx context.Context, pools []managed, l net.Listener, h http.Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10}
	var failed error
	var once sync.Once
	fail := func(err error) {
		once.Do(func() { failed = err })
		cancel(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("status and metrics: %w", err))
		}
	})
	for _, p := range pools {
		running.Go(func() {
			if err := p.transport.Run(ctx); err != nil {
				fail(err)
			}
		})
	}
	<-ctx.Done()
	grace, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	if server.Shutdown(grace) != nil {
		_ = server.Close()
	}
	running.Wait()
	return failed
}

// tell prints where it listens.
func (c *poolRunCmd) tell(a *app, address string, pools int) error {
	if c.AddressFile != "" {
		if err := writeWhole(c.AddressFile, address+"\n"); err != nil {
			return err
		}
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(struct {
			Address string `json:"address"`
			Pools   int    `json:"pools"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{address, pools, os.Getpid(), version()})
	case !a.cli.Quiet:
		a.say("rouse %s manages %d pools; status and metrics on http://%s/pools and http://%s/metrics", version(), pools, address, address)
	}
	return nil
}
