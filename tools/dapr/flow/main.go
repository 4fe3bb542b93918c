// Command flow is an application of Dapr's workflows. Its workflow "steps" has as many steps as its input
// specifies. Each step waits briefly, for which Dapr creates a reminder, and calls an activity, for which
// Dapr creates another.
//
//	flow DAPRD-GRPC-ADDRESS
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/dapr/durabletask-go/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// steps is the workflow. It returns the sum of the activity's results.
func steps(ctx *workflow.WorkflowContext) (any, error) {
	var n int
	if err := ctx.GetInput(&n); err != nil {
		return nil, err
	}
	sum := 0
	for i := 1; i <= n; i++ {
		if err := ctx.CreateTimer(300 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		var square int
		if err := ctx.CallActivity("square", workflow.WithActivityInput(i)).Await(&square); err != nil {
			return nil, err
		}
		sum += square
	}
	return sum, nil
}

func square(ctx workflow.ActivityContext) (any, error) {
	var n int
	if err := ctx.GetInput(&n); err != nil {
		return nil, err
	}
	return n * n, nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: flow DAPRD-GRPC-ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := workflow.NewRegistry()
	if err := r.AddWorkflowN("steps", steps); err != nil {
		log.Fatal(err)
	}
	if err := r.AddActivityN("square", square); err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := workflow.NewClient(conn)
	for ctx.Err() == nil { // the sidecar may not have started yet, or may be restarting
		err := client.StartWorker(ctx, r)
		if err == nil {
			fmt.Println("working")
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}
