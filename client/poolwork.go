package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
)

// Worker is the environment of a worker of a pool, when its pool is one of rouse's own store.
type Worker struct {
	ID   string // WORKER_ID
	Pool string // WORKER_POOL
	Key  string // WORKER_KEY: the key whose requests it gets

	// Namespace is WORKER_NAMESPACE: the namespace whose requests it gets; empty if it gets those of all.
	Namespace string

	Queue string // WORKER_REQUESTS_QUEUE: the channel that it subscribes to

	Address string // WORKER_ROUSE_ADDRESS: where it reaches rouse
	Token   string // WORKER_TOKEN: its credential, with access control; WorkOptions.Client may have another one
}

// ThisWorker reads the environment of a process that a pool has started.
func ThisWorker() (Worker, error) {
	w := Worker{ID: os.Getenv("WORKER_ID"), Pool: os.Getenv("WORKER_POOL"), Key: os.Getenv("WORKER_KEY"),
		Namespace: os.Getenv("WORKER_NAMESPACE"), Queue: os.Getenv("WORKER_REQUESTS_QUEUE"),
		Address: os.Getenv("WORKER_ROUSE_ADDRESS"), Token: os.Getenv("WORKER_TOKEN")}
	if w.Queue == "" || w.Address == "" {
		return Worker{},
			errors.New(
				"WORKER_REQUESTS_QUEUE or WORKER_ROUSE_ADDRESS is not set: this process is no worker that a pool of rouse has started")
	}
	return w, nil
}

// WorkOptions configure a worker. Zero fields have the defaults that their comments name.
type WorkOptions struct {
	// handlers that run concurrently; default 1, so that the requests of a key are handled one after another
	Concurrency int
	Prefetch    int         // requests that are handled or wait for a handler; default Concurrency
	Lost        func(error) // as SubscribeOptions.Lost
	Client      Options
}

// Work handles the requests of the worker's key until ctx ends, as Serve does: the handler's answer is the
// answer to the request. After an error the request is retried, unless the error is Permanent. When ctx ends,
// such as with SIGTERM in a program that uses signal.NotifyContext, Work finishes the requests in progress,
// and requests that have not begun go to other workers; none is lost.
func (w Worker) Work(ctx context.Context, o WorkOptions, handle Answerer) error {
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), 1)
	o.Prefetch = cmp.Or(max(o.Prefetch, 0), o.Concurrency)
	o.Client.Token = cmp.Or(o.Client.Token, w.Token)
	c, err := Dial(w.Address, o.Client)
	if err != nil {
		return fmt.Errorf("worker %s: %w", w.ID, err)
	}
	defer c.Close()
	return c.Serve(ctx, SubscribeOptions{Channel: w.Queue, Concurrency: o.Concurrency, Credits: o.Prefetch, Lost: o.Lost,
		OneNode: true}, handle)
}
