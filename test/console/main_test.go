package console_test

import (
	"os"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }
