#!/usr/bin/env bash
# NATS JetStream, nats-server 2.9.10 and nats.go v1.55.0: a message ID counts for the whole stream, and
# outlives its message.
#
# Expected: deduplication compares messages for one subject, and a work queue without the message accepts its
# ID again.
# Seen: within the stream's window, the same Nats-Msg-Id on another subject is dropped, and so is an ID whose
# message was acknowledged and thereby deleted. Publish returns no error: only PubAck.Duplicate tells, and
# its sequence number is the one of the first message, which may be for another subject, or no longer exist.
# Why it matters: the ID of an order for both jobs.invoice and jobs.mail loses the second job, and a job that
# is put back with its ID right after its acknowledgement is lost too. The subject and an attempt belong into
# the ID; check Duplicate.
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
PATH=$PATH:/usr/sbin:/usr/local/sbin
command -v nats-server >/dev/null || { echo "needs nats-server"; exit 2; }

# Port -1 is a free one; the file in --ports_file_dir tells which.
nats-server -a 127.0.0.1 -p -1 -js -sd "$dir/data" --ports_file_dir "$dir" >nats.log 2>&1 &
server=$!
for _ in $(seq 50); do ! compgen -G '*.ports' >/dev/null || break; sleep 0.1; done
url=$(grep -o 'nats://[0-9.:]*' ./*.ports | head -n 1)

cat >go.mod <<'MOD'
module finding

go 1.25.0

require github.com/nats-io/nats.go v1.55.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	conn, err := nats.Connect(os.Args[1])
	check(err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	check(err)
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs.>"},
		Retention: jetstream.WorkQueuePolicy, Duplicates: time.Minute})
	check(err)
	publish := func(subject string) {
		ack, err := js.Publish(ctx, subject, []byte("order 42"), jetstream.WithMsgID("42"))
		check(err)
		fmt.Printf("%s: sequence %d, duplicate %t\n", subject, ack.Sequence, ack.Duplicate)
	}
	publish("jobs.mail")
	publish("jobs.invoice")

	worker, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	check(err)
	msg, err := worker.Next()
	check(err)
	check(msg.DoubleAck(ctx))
	publish("jobs.mail")
	info, err := stream.Info(ctx)
	check(err)
	fmt.Println("messages in the stream:", info.State.Msgs)
}
GO
GOFLAGS=-mod=mod go build -o publish . 2>go.log || { cat go.log; exit 2; }
./publish "$url" >seen
cat seen

diff seen - <<'WANT'
jobs.mail: sequence 1, duplicate false
jobs.invoice: sequence 1, duplicate true
jobs.mail: sequence 1, duplicate true
messages in the stream: 0
WANT
