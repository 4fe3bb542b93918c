package broker

import (
	"os"
	"strings"
	"testing"
)

// TestABrokerThatIsNotLinkedIsNamed: this test links no kind of broker.
func TestABrokerThatIsNotLinkedIsNamed(t *testing.T) {
	for scheme, kind := range kinds {
		_, err := Open(Connection{Name: "a", URL: scheme + "://u:secret@h"}, nil)
		if err == nil || !strings.HasSuffix(err.Error(), `import _ "github.com/rousehq/rouse/sink/broker/`+kind+`"`) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := os.Stat(kind + "/register.go"); err != nil {
			t.Errorf("there is no such package: %v", err)
		}
	}
}
