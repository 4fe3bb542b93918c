package main

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

var asynqPeer = &peer{
	name: "asynq", store: "redis", inserters: 64, batch: 1, open: openAsynq,
	settings: "v0.26.0, no batches: 64 callers enqueue one by one; concurrency 500, what is scheduled is looked at every 100 ms (5 s by default) and due in whole seconds",
}

type asynqQueue struct {
	client *asynq.Client
	server *asynq.Server // nil if nothing is worked
}

const asynqType = "noop"

func openAsynq(_ context.Context, url string, worked func(time.Time)) (queue, error) {
	at, err := asynq.ParseRedisURI(url)
	if err != nil {
		return nil, err
	}
	q := &asynqQueue{client: asynq.NewClient(at)}
	if worked == nil {
		return q, nil
	}
	q.server = asynq.NewServer(at, asynq.Config{Concurrency: 500, DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel, ShutdownTimeout: 5 * time.Second})
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqType, func(_ context.Context, t *asynq.Task) error {
		body := t.Payload()
		if len(body) < 8 {
			return errors.New("a job without a due time")
		}
		worked(time.UnixMilli(int64(binary.BigEndian.Uint64(body))))
		return nil
	})
	if err := q.server.Start(mux); err != nil {
		return nil, errors.Join(err, q.client.Close())
	}
	return q, nil
}

func (q *asynqQueue) insert(ctx context.Context, jobs []job) error {
	for _, j := range jobs {
		body := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(j.payload)), uint64(j.due.UnixMilli())), j.payload...)
		if _, err := q.client.EnqueueContext(ctx, asynq.NewTask(asynqType, body), asynq.ProcessAt(j.due)); err != nil {
			return err
		}
	}
	return nil
}

func (q *asynqQueue) close(context.Context) error {
	if q.server != nil {
		q.server.Shutdown()
	}
	return q.client.Close()
}
