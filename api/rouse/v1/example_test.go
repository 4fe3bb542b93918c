package rousev1_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// A gRPC client without package client, which adds retries, streams of several nodes and Go types.
func Example() {
	conn, err := grpc.NewClient("127.0.0.1:7411", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	t, err := rousev1.NewTimersClient(conn).Get(context.Background(), &rousev1.GetRequest{Namespace: "default", Name: "coffee"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.GetName(), rousev1.InstantFromProto(t.GetDueMs()))
}
