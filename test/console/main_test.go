package console_test

import (
	"os"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

func TestMain(m *testing.M) {
	code := harness.Main(m, nil)
	closeBrowser()
	os.Exit(code)
}
