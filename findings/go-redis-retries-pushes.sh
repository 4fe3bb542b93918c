#!/usr/bin/env bash
# go-redis v9.23.0 on Redis 7.0.15: a push whose answer is late is repeated, and each attempt is executed.
#
# Expected: MaxRetries repeats what did not reach the server. After a read timeout the outcome of a command
# is unknown, so one that is not idempotent, such as RPUSH or INCR, is returned with its error.
# Seen: the server is busy for three seconds; RPUSH with MaxRetries 2 and a ReadTimeout of 300 ms goes out
# three times, on three connections of the pool. The caller gets a timeout, and the list has three elements:
# Redis executes what it had received when it is free again, also from connections that are closed by then.
# Why it matters: one slow script or fork of the server duplicates jobs and counts, and the caller that
# pushes again after the error adds more. Push by a script that checks an ID, or set MaxRetries to -1 for
# such commands.
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
command -v redis-server >/dev/null || { echo "needs redis-server"; exit 2; }

# DEBUG SLEEP stands for a slow script.
redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" --enable-debug-command yes >redis.log 2>&1 &
server=$!
for _ in $(seq 50); do [ ! -S redis ] || break; sleep 0.1; done

cat >go.mod <<'MOD'
module finding

go 1.25.0

require github.com/redis/go-redis/v9 v9.23.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	options := redis.Options{Network: "unix", Addr: os.Args[1], MaxRetries: 2, ReadTimeout: 300 * time.Millisecond}
	client := redis.NewClient(&options)
	patient := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[1], ReadTimeout: 30 * time.Second})

	// A program with some load has idle connections in its pool.
	var conns []*redis.Conn
	for range 4 {
		conn := client.Conn()
		if err := conn.Ping(ctx).Err(); err != nil {
			panic(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}

	busy := make(chan error)
	go func() { busy <- patient.Do(ctx, "DEBUG", "SLEEP", "3").Err() }()
	time.Sleep(300 * time.Millisecond)
	err := client.RPush(ctx, "jobs", "send invoice 42").Err()
	var network net.Error
	fmt.Println("the push timed out:", errors.As(err, &network) && network.Timeout())
	if err := <-busy; err != nil {
		panic(err)
	}
	fmt.Println("jobs in the list:", patient.LLen(ctx, "jobs").Val())
}
GO
GOFLAGS=-mod=mod go build -o push . 2>go.log || { cat go.log; exit 2; }
./push "$dir/redis" >seen
cat seen

diff seen - <<'WANT'
the push timed out: true
jobs in the list: 3
WANT
