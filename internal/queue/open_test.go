package queue

import (
	"os"
	"strings"
	"testing"
)

// TestAQueueThatIsNotLinkedIsNamed: this test links no kind of queue.
func TestAQueueThatIsNotLinkedIsNamed(t *testing.T) {
	for scheme, kind := range kinds {
		_, err := Open(t.Context(), scheme+"://u:secret@h", Options{}, false)
		if err == nil || !strings.HasSuffix(err.Error(), `import _ "github.com/rousehq/rouse/node/all"`) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := os.Stat(kind + "/register.go"); err != nil {
			t.Errorf("there is no such package: %v", err)
		}
	}
	for _, url := range []string{"", "amqp", "amqp:x", "kafka://h"} {
		if kind := KindOf(url); kind != "" {
			t.Errorf("%q is of the kind %s", url, kind)
		}
	}
}
