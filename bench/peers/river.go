package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var riverPeer = &peer{
	name: "river", store: "postgres", inserters: 4, batch: 100, open: openRiver,
	settings: "v0.51.1 with riverpgxv5, InsertMany of 100 jobs, 2,000 workers, fetches every 2 ms; what is scheduled becomes available every 5 s, which cannot be set",
}

// riverJob carries its due time with it: River's own ScheduledAt is not the one that was asked for once a job
// was retried.
type riverJob struct {
	Due     int64  `json:"due"`
	Payload string `json:"payload"`
}

func (riverJob) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	worked func(time.Time)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[riverJob]) error {
	w.worked(time.UnixMilli(j.Args.Due))
	return nil
}

type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	works  bool
}

func openRiver(ctx context.Context, url string, worked func(time.Time)) (_ queue, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	c := &river.Config{Logger: slog.New(slog.DiscardHandler)}
	if worked != nil {
		c.Workers = river.NewWorkers()
		if err := river.AddWorkerSafely(c.Workers, &riverWorker{worked: worked}); err != nil {
			return nil, err
		}
		c.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}}
		c.FetchCooldown, c.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	}
	client, err := river.NewClient(driver, c)
	if err != nil {
		return nil, err
	}
	if worked != nil {
		if err := client.Start(context.WithoutCancel(ctx)); err != nil { // close ends it
			return nil, err
		}
	}
	return &riverQueue{pool: pool, client: client, works: worked != nil}, nil
}

func (q *riverQueue) insert(ctx context.Context, jobs []job) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i] = river.InsertManyParams{Args: riverJob{Due: j.due.UnixMilli(), Payload: string(j.payload)},
			InsertOpts: &river.InsertOpts{ScheduledAt: j.due}}
	}
	_, err := q.client.InsertMany(ctx, params)
	return err
}

func (q *riverQueue) close(ctx context.Context) error {
	var err error
	if q.works {
		err = q.client.StopAndCancel(ctx)
	}
	q.pool.Close()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
