// Worker is the worker of the drivers' contract as a program of its own, which can be built without the C
// library and so needs nothing else in its image.
package main

import (
	"fmt"
	"os"

	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func main() {
	drivertest.Main()
	fmt.Fprintln(os.Stderr, "this program is for tests: it has no order")
	os.Exit(2)
}
