package trace_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/trace"
)

func Example() {
	os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
	defer os.Unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	n, err := node.Open(context.Background(), "mem:") // its timers are traced
	fmt.Println(err)
	n.Close()
	// Output: <nil>
}
