package dapr

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dapr/dapr/tests/integration/framework"
	"github.com/dapr/dapr/tests/integration/framework/binary"
	"github.com/dapr/dapr/tests/integration/suite"
	_ "github.com/dapr/dapr/tests/integration/suite/actors/lock/reminders"
	_ "github.com/dapr/dapr/tests/integration/suite/actors/reminders"
	_ "github.com/dapr/dapr/tests/integration/suite/daprd/jobs"
	_ "github.com/dapr/dapr/tests/integration/suite/daprd/metadata/scheduler"
	_ "github.com/dapr/dapr/tests/integration/suite/daprd/scheduler"
	_ "github.com/dapr/dapr/tests/integration/suite/daprd/workflow"
	_ "github.com/dapr/dapr/tests/integration/suite/scheduler"
)

// leftOut are the cases that do not apply to rouse, with the reason.
var leftOut = map[string]string{
	"scheduler/leases":             "revokes the lease of the stock scheduler's leadership in its etcd",
	"scheduler/embed/":             "is of the stock scheduler's etcd",
	"scheduler/quorum/":            "looks into the stock scheduler's etcd",
	"scheduler/helm/":              "is of the chart that deploys the stock scheduler",
	"scheduler/kubernetes/":        "deletes namespaces of Kubernetes, which rouse does not watch",
	"scheduler/workers":            "is of a flag that rouse takes and ignores",
	"scheduler/api/triggerstall":   "wants triggers again that a sidecar has and has not answered, when another member restarts: here they wait for the sidecar",
	"scheduler/metrics/goroutines": "compares counts of goroutines of the stock scheduler",
	"daprd/jobs/kubernetes":        "deploys with the operator",

	"daprd/workflow/purge/retention/kubernetes/": "deploys with the operator",
	"daprd/workflow/disk/":                       "fills the disk of the stock scheduler's etcd",
}

// TestSuite runs those cases of Dapr's own integration tests that involve its scheduler, with rouse in its
// place. Package test/dapr sets the variables by which these tests find the programs.
func TestSuite(t *testing.T) {
	if os.Getenv(binary.EnvKey("scheduler")) == "" {
		t.Skip("there are no programs to test: make test-dapr-suite builds them")
	}
	focus := regexp.MustCompile(os.Getenv("FOCUS"))
	for _, c := range suite.All(t) {
		if !focus.MatchString(c.Name()) {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			t.Cleanup(func() { tell(t, c.Name()) })
			for prefix, why := range leftOut {
				if strings.HasPrefix(c.Name(), prefix) {
					t.Skip(why)
				}
			}
			t.Parallel()
			one := reflect.New(reflect.TypeOf(c.Case).Elem()).Interface().(suite.Case)
			options := one.Setup(t)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			t.Cleanup(cancel)
			framework.Run(t, ctx, options...)
			t.Run("run", func(t *testing.T) { one.Run(t, ctx) })
		})
	}
}

// tell prints the result of a case immediately: go test prints results only after all cases, and a case may
// hang.
func tell(t *testing.T, name string) {
	how := "PASS"
	switch {
	case t.Failed():
		how = "FAIL"
	case t.Skipped():
		how = "SKIP"
	}
	fmt.Printf("\ncase %s %s\n", how, name)
}
