package foreign_test

import (
	"fmt"
	"testing"

	"github.com/rousehq/rouse/internal/foreign"
)

// TestWideSteps: a step that passes the end of its field is the first value, as cron and Kubernetes have it.
func TestWideSteps(t *testing.T) {
	for _, c := range []struct{ expr, cron, kube string }{ // none is refused
		{"*/60 * * * *", "0 * * * *", "0 * * * *"},
		{"*/59 * * * *", "*/59 * * * *", "*/59 * * * *"},
		{"0 */24 * * *", "0 0 * * *", "0 0 * * *"},
		{"1 */12 * * *", "1 */12 * * *", "1 */12 * * *"},
		{"5 3 1 */12 *", "5 3 1 1 *", "5 3 1 1 *"},
		{"0 0 * JUN-AUG/13 MON-FRI/9", "0 0 * JUN MON", "0 0 * JUN MON"},
		{"20-40/90,50 0 * * *", "20,50 0 * * *", "20,50 0 * * *"},
		{"0 0 */31 * *", "0 0 1 * *", "0 0 1 * *"},
		{"0 0 */31 * MON", "", "0 0 1 * MON"}, // cron: both days have to match; Kubernetes: one of them
		{"0 0 */31 * */7", "", "0 0 1 * 0"},
		{"0 0 */31 * */2", "0 0 1 * */2", "0 0 1 * 0-6/2"},
		{"0 0 * * */7", "0 0 * * 0", "0 0 * * 0"},
		{"*/0 * * * *", "", ""},
		{"40-20/60 * * * *", "", ""},
		{"*/60/2 * * * *", "", ""},
		{"*/99999999999999999999 * * * *", "", ""},
	} {
		for kind, file := range map[string][2]string{
			"crontab":     {c.expr + " a", c.cron},
			"pg_cron":     {fmt.Sprintf(`{"jobid": 1, "schedule": %q, "command": "SELECT 1"}`, c.expr), c.cron},
			"k8s-cronjob": {fmt.Sprintf(`{"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": %q, "timeZone": "UTC"}}`, c.expr), c.kube},
		} {
			entries, _, err := foreign.Read(kind, []byte(file[0]), foreign.Options{Target: "stream:x", Timezone: "UTC"})
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			if e := entries[0]; (e.Err == nil) != (file[1] != "") || e.Err == nil && (e.Spec.Schedule != file[1] || len(e.Notes) > 0) {
				t.Errorf("%s of %s: %s %q %v", c.expr, kind, e.Spec.Schedule, e.Notes, e.Err)
			}
		}
	}
}
