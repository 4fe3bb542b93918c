#!/usr/bin/env bash
# asynq v0.26.0 (Go) on Redis 7.0.15: a task runs up to a second before the time given to ProcessAt.
#
# Expected: a task with ProcessAt(12:00:03.900) runs at 12:00:03.900 or later; a queue may be late, not
# early.
# Seen: the fraction of the second is cut off when the task is stored, so it is due at 12:00:03.000. Enqueue
# still returns the time with its fraction; the inspector shows the stored one. How often the server looks
# for due tasks only decides how much of the second is left: with DelayedTaskCheckInterval at 50 ms, the task
# runs about 0.9 s early.
# Why it matters: a handler that checks "is it time?" (a token that becomes valid, a lock that ends, a row
# with not_before) sees its own task too early, and fails or skips it. Round up to the next second before
# ProcessAt.
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
command -v redis-server >/dev/null || { echo "needs redis-server"; exit 2; }

# A socket in the folder is a server that nothing else reaches.
redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" >redis.log 2>&1 &
server=$!
for _ in $(seq 50); do [ ! -S redis ] || break; sleep 0.1; done

cat >go.mod <<'MOD'
module finding

go 1.25.0

require github.com/hibiken/asynq v0.26.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	redis := asynq.RedisClientOpt{Network: "unix", Addr: os.Args[1]}
	ran := make(chan time.Time, 1)
	server := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 50 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond})
	check(server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ran <- time.Now()
		return nil
	})))
	defer server.Shutdown()

	at := time.Now().Truncate(time.Second).Add(3900 * time.Millisecond)
	client := asynq.NewClient(redis)
	defer client.Close()
	task, err := client.Enqueue(asynq.NewTask("work", nil), asynq.ProcessAt(at))
	check(err)
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	stored, err := inspector.GetTaskInfo("default", task.ID)
	check(err)
	fmt.Println("returned by Enqueue: early by", at.Sub(task.NextProcessAt))
	fmt.Println("stored: early by", at.Sub(stored.NextProcessAt))
	early := at.Sub(<-ran)
	fmt.Fprintln(os.Stderr, "measured: early by", early)
	fmt.Println("ran early:", early > 0)
}
GO
GOFLAGS=-mod=mod go build -o early . 2>go.log || { cat go.log; exit 2; }
./early "$dir/redis" >seen
cat seen

diff seen - <<'WANT'
returned by Enqueue: early by 0s
stored: early by 900ms
ran early: true
WANT
