#!/usr/bin/env bash
# grpc-go v1.85.0: a retry policy with more than five attempts makes five.
#
# Expected: a service config with "maxAttempts": 10 makes ten attempts, or is refused.
# Seen: it is accepted, and the server sees five calls. With 3, it sees three. The cap is a dial option,
# grpc.WithMaxCallAttempts, and the service config cannot raise it.
# Why it matters: attempts and backoff are usually chosen to outlast a restart of the server. With half of
# the attempts the client gives up while the server still starts, and no message tells that the policy was
# cut.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'MOD'
module finding

go 1.25.0

require google.golang.org/grpc v1.85.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.01s",
	"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

type server struct {
	health.UnimplementedHealthServer
	calls atomic.Int32
}

func (s *server) Check(context.Context, *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	s.calls.Add(1)
	return nil, status.Error(codes.Unavailable, "starting")
}

func count(attempts int, more ...grpc.DialOption) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s, g := &server{}, grpc.NewServer()
	health.RegisterHealthServer(g, s)
	go g.Serve(listener)
	defer g.Stop()
	options := append(more, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(policy, attempts)))
	conn, err := grpc.NewClient(listener.Addr().String(), options...)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	health.NewHealthClient(conn).Check(context.Background(), &health.HealthCheckRequest{})
	fmt.Printf("maxAttempts %d, %d dial options: %d calls\n", attempts, len(more), s.calls.Load())
}

func main() {
	count(3)
	count(10)
	count(10, grpc.WithMaxCallAttempts(10))
}
GO
GOFLAGS=-mod=mod go run . >seen 2>go.log || { cat go.log; exit 2; }
cat seen

diff seen - <<'WANT'
maxAttempts 3, 0 dial options: 3 calls
maxAttempts 10, 0 dial options: 5 calls
maxAttempts 10, 1 dial options: 10 calls
WANT
