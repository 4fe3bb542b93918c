package pool

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/pool"
)

// TestAnswersOfNoManager: whatever something else answers, a manager is not what is blamed.
func TestAnswersOfNoManager(t *testing.T) {
	for _, code := range []int{200, 302, 400, 404, 405, 502} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<html>"))
		}))
		a := &cli.App{Ctx: t.Context()}
		a.Flags.Timeout = time.Minute
		var list []pool.Summary
		err := (&poolAddress{Address: strings.TrimPrefix(other.URL, "http://")}).callManager(a, http.MethodGet, "/pools", &list)
		other.Close()
		if err == nil || !strings.Contains(err.Error(), "there is no manager of pools at") {
			t.Errorf("%d: %v", code, err)
		}
	}
}
