package controller

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/kubelink"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/rousetest"
	"github.com/rousehq/rouse/test/servers"
)

// cluster is a real API server with the chart installed, and a rouse.
type cluster struct {
	*servers.Kubernetes
	t     *testing.T // of the part that runs
	whole *testing.T
	rouse *rousetest.Server
	token string // of the service account of the controller
}

// TestWithAKubernetes runs controllers with a real API server, on which Helm has installed the definitions
// and the rights of the chart, and with a real rouse.
func TestWithAKubernetes(t *testing.T) {
	t.Setenv("SEALING_KEYS", "rousekey_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	server := rousetest.NewServer(t, rousetest.Configure(func(c *node.Config) { c.SecretKeys = "env:SEALING_KEYS" }))
	c := &cluster{Kubernetes: servers.StartKubernetes(t, nil), t: t, whole: t, rouse: server}
	c.Helm(t, "install", "rouse", "../../packaging/helm/rouse", "--namespace", "default", "--set",
		"image.repository=registry.example/rouse,tls.secret=tls,adminKey.secret=admin,controller.enabled=true,controller.key.secret=key")
	c.token = c.AccountToken(t, "default", "rouse-controller")
	for _, namespace := range []string{"shop", "billing"} {
		c.Apply(t, "/api/v1/namespaces/"+namespace, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`)
	}
	c.rouse.Handle("job", func(context.Context, rouse.Fire) error { return nil })
	t.Run("Schema", c.schema)
	var leads atomic.Bool
	first := c.start("test-", &leads)
	t.Run("Page", func(t *testing.T) { c.with(t).page() })
	t.Run("Life", func(t *testing.T) { c.with(t).life() })
	t.Run("Invalid", func(t *testing.T) { c.with(t).invalid() })
	t.Run("Drift", func(t *testing.T) { c.with(t).drift() })
	t.Run("Others", func(t *testing.T) { c.with(t).others() })
	t.Run("Calendars", func(t *testing.T) { c.with(t).calendars() })
	t.Run("Ended", func(t *testing.T) { c.with(t).ended() })
	t.Run("Away", func(t *testing.T) { c.with(t).away() })
	t.Run("Prune", func(t *testing.T) { c.with(t).prunes() })
	t.Run("Leader", func(t *testing.T) {
		c := c.with(t)
		var other atomic.Bool
		leads.Store(false)
		second := c.start("test-", &other)
		other.Store(false)
		c.put("timers", "shop", "handover", timerSpec(`"@every 1h"`))
		c.until("the second one knows it", func() bool { return second.findObject(key{"timer", "shop", "handover"}) != nil })
		if _, err := c.rouse.Client.Get(t.Context(), "test-shop", "handover"); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("without a leader it was made: %v", err)
		}
		other.Store(true)
		c.is("timers", "shop", "handover", "Applied", "")
		other.Store(false)
		leads.Store(true)
		c.delete("timers", "shop", "handover")
		c.gone("timers", "shop", "handover")
	})
	if err := first.Ready(); err != nil {
		t.Error(err)
	}
}

func (c *cluster) with(t *testing.T) *cluster {
	with := *c
	with.t = t
	return &with
}

// start starts a controller that leads.
func (c *cluster) start(prefix string, leads *atomic.Bool) *Controller {
	t := c.t
	t.Helper()
	leads.Store(true)
	link, err := kubelink.Connect("kubeconfig", c.Kubeconfig(t, c.token, "default"))
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := New(Options{Link: link, Client: c.rouse.Client, Prefix: prefix, Owner: "kubernetes", Prune: true, Resync: time.Second, Timeout: time.Minute,
		Leads: leads.Load, Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); ctl.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; link.Close() })
	return ctl
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Logf("%s", b); return len(b), nil }

func timerSpec(schedule string) string {
	return `{"schedule": ` + schedule + `, "target": "stream:x", "payload": {"a": [1, "<b>"]}, "retry": {"attempts": 3}}`
}

func path(plural, namespace, name string) string {
	return "/apis/rouse.dev/v1/namespaces/" + namespace + "/" + plural + "/" + name
}

func body(plural, namespace, name, spec string) string {
	kind := map[string]string{"timers": "Timer", "calendars": "Calendar"}[plural]
	return fmt.Sprintf(`{"apiVersion":"rouse.dev/v1","kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":%s}`, kind, namespace, name, spec)
}

// put creates or changes an object.
func (c *cluster) put(plural, namespace, name, spec string) {
	c.t.Helper()
	c.Apply(c.t, path(plural, namespace, name), body(plural, namespace, name, spec))
}

func (c *cluster) delete(plural, namespace, name string) {
	c.t.Helper()
	if status, answer, err := c.Call(c.t, http.MethodDelete, path(plural, namespace, name), "", ""); err != nil || status/100 != 2 {
		c.t.Fatalf("delete %s: %d, %v\n%s", name, status, err, answer)
	}
}

func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for !holds() {
		if time.Now().After(end) {
			c.t.Fatalf("not in three minutes: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) get(plural, namespace, name string) (o *object, there bool) {
	c.t.Helper()
	status, answer, err := c.Call(c.t, http.MethodGet, path(plural, namespace, name), "", "")
	if err != nil || status != http.StatusOK && status != http.StatusNotFound {
		c.t.Fatalf("%s: %d, %v\n%s", name, status, err, answer)
	}
	if o = (&object{}); status == http.StatusNotFound {
		return o, false
	}
	if err := json.Unmarshal(answer, o); err != nil {
		c.t.Fatal(err)
	}
	return o, true
}

// gone waits until an object is gone.
func (c *cluster) gone(plural, namespace, name string) {
	c.t.Helper()
	c.until(name+" is gone", func() bool { _, there := c.get(plural, namespace, name); return !there })
}

// is waits until the condition Ready of an object has a reason, for its present spec, and a message.
func (c *cluster) is(plural, namespace, name, reason, message string) *object {
	c.t.Helper()
	var o *object
	end := time.Now().Add(3 * time.Minute)
	for {
		o, _ = c.get(plural, namespace, name)
		for _, one := range o.Status.Conditions {
			if one.Type == ready && o.Status.readyReason(o.Metadata.Generation) == reason && strings.Contains(one.Message, message) {
				return o
			}
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s is not %s %q, but %+v", name, reason, message, o.Status)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) timer(namespace, name string) rouse.Timer {
	c.t.Helper()
	t, err := c.rouse.Client.Get(c.t.Context(), namespace, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

func (c *cluster) noTimer(namespace, name string) {
	c.t.Helper()
	if _, err := c.rouse.Client.Get(c.t.Context(), namespace, name); !errors.Is(err, rouse.ErrNotFound) {
		c.t.Errorf("the timer %s: %v", name, err)
	}
}

// schema: the API server itself refuses what the schema does not have.
func (c *cluster) schema(t *testing.T) {
	for spec, want := range map[string]string{
		`{"schedule": "@every 1h", "target": "stream:x", "overlap": "never"}`: "Unsupported value",
		`{"schedule": "@every 1h"}`: "spec.target: Required value",
		`{"target": "stream:x"}`:    "spec.schedule: Required value",
		`{"schedule": "@every 1h", "target": "stream:x", "retry": {"attempts": 1001}}`:       "should be less than or equal to 1000",
		`{"schedule": "@every 1h", "target": "stream:x", "retries": 3}`:                      "unknown field",
		`{"schedule": "@every 1h", "target": "stream:x", "labels": {"a": 7}}`:                "must be of type string",
		`{"schedule": "@every 1h", "target": "stream:x", "start": "tomorrow"}`:               "date-time",
		`{"schedule": "` + strings.Repeat("x", 513) + `", "target": "stream:x"}`:             "may not be more than 512",
		`{"schedule": "@every 1h", "target": "stream:x", "payload_base64": "%"}`:             "byte",
		`{"schedule": "@every 1h", "target": "stream:x", "calendar": {"shift": "tomorrow"}}`: "Unsupported value",
	} {
		status, answer, err := c.Call(t, http.MethodPost, "/apis/rouse.dev/v1/namespaces/shop/timers?fieldValidation=Strict", "", body("timers", "shop", "bad", spec))
		if err != nil || status/100 != 4 || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %d, %v, without %q\n%s", spec, status, err, want, answer)
		}
	}
}

// page: the objects of docs/kubernetes.md are applied as they are shown.
func (c *cluster) page() {
	if _, err := c.rouse.Client.Secrets().Put(c.t.Context(), "test-shop", "reports", "s3cret"); err != nil {
		c.t.Fatal(err)
	}
	objects, texts := shownObjects(c.t)
	for i, o := range objects {
		c.Apply(c.t, path(strings.ToLower(o.Kind)+"s", o.Metadata.Namespace, o.Metadata.Name), texts[i])
	}
	for _, o := range objects {
		c.is(strings.ToLower(o.Kind)+"s", o.Metadata.Namespace, o.Metadata.Name, "Applied", "")
		c.delete(strings.ToLower(o.Kind)+"s", o.Metadata.Namespace, o.Metadata.Name)
	}
	for _, o := range objects {
		c.gone(strings.ToLower(o.Kind)+"s", o.Metadata.Namespace, o.Metadata.Name)
	}
}

// life: an object is made, changed, fires, and is deleted.
func (c *cluster) life() {
	c.put("timers", "shop", "nightly", timerSpec(`"@every 1h"`))
	o := c.is("timers", "shop", "nightly", "Applied", "")
	made := c.timer("test-shop", "nightly")
	if made.Spec.Labels[declare.OwnerLabel] != "kubernetes" || string(made.Spec.Payload) != `{"a":[1,"<b>"]}` || made.Spec.Retry.Attempts != 3 {
		c.t.Errorf("the timer is %+v, %s", made.Spec, made.Spec.Payload)
	}
	if o.Status.NextFire == nil || *o.Status.NextFire != made.Due.String() || *o.Status.Namespace != "test-shop" || *o.Status.State != "scheduled" || o.Status.LastFire != nil {
		c.t.Errorf("the status is %+v", o.Status)
	}
	if !o.hasFinalizer() || len(o.Status.Conditions) != 2 || o.Status.Conditions[0].Status != "True" || o.Status.Conditions[1].Status != "False" {
		c.t.Errorf("the object is %+v", o)
	}
	c.put("timers", "shop", "nightly", `{"schedule": "@every 1h", "target": "func:job"}`)
	c.is("timers", "shop", "nightly", "Applied", "")
	if now := c.timer("test-shop", "nightly"); now.Spec.Target != "func:job" || len(now.Spec.Payload) > 0 {
		c.t.Errorf("the timer is %+v", now.Spec)
	}
	c.rouse.Advance(time.Hour)
	c.until("the status has the fire", func() bool {
		o, _ := c.get("timers", "shop", "nightly")
		return o.Status.LastFire != nil && o.Status.LastFire.Ending == "fired" && o.Status.LastFire.Due != "" && *o.Status.NextFire > o.Status.LastFire.Due
	})
	c.delete("timers", "shop", "nightly")
	c.gone("timers", "shop", "nightly")
	c.noTimer("test-shop", "nightly")
}

// invalid: what rouse refuses is told with its field, and the timer of an earlier spec stays.
func (c *cluster) invalid() {
	c.put("timers", "shop", "wrong", timerSpec(`"61 * * * *"`))
	o := c.is("timers", "shop", "wrong", "Invalid", `spec.schedule "61 * * * *"`)
	if o.Status.Conditions[0].Status != "False" || o.Status.Conditions[1].Status != "True" || o.Status.NextFire != nil {
		c.t.Errorf("the status is %+v", o.Status)
	}
	c.put("timers", "shop", "wrong", timerSpec(`"0 3 * * *"`))
	c.is("timers", "shop", "wrong", "Applied", "")
	c.put("timers", "shop", "wrong", timerSpec(`"@after 1h"`))
	c.is("timers", "shop", "wrong", "Invalid", "keep")
	if now := c.timer("test-shop", "wrong"); now.Spec.Schedule != "0 3 * * *" {
		c.t.Errorf("the timer is %+v", now.Spec)
	}
	c.delete("timers", "shop", "wrong") // although its spec is refused, its timer goes
	c.gone("timers", "shop", "wrong")
	c.noTimer("test-shop", "wrong")
}

// drift: what another client changes is changed back, and a pause is kept.
func (c *cluster) drift() {
	ctx := c.t.Context()
	c.put("timers", "billing", "drifts", timerSpec(`"@every 1h"`))
	c.is("timers", "billing", "drifts", "Applied", "")
	if _, err := c.rouse.Client.Reschedule(ctx, "test-billing", "drifts", rouse.Spec{Schedule: "@every 2h"}); err != nil {
		c.t.Fatal(err)
	}
	c.until("it is changed back", func() bool { return c.timer("test-billing", "drifts").Spec.Schedule == "@every 1h" })
	if _, err := c.rouse.Client.Delete(ctx, "test-billing", "drifts"); err != nil {
		c.t.Fatal(err)
	}
	c.until("it is made again", func() bool {
		_, err := c.rouse.Client.Get(ctx, "test-billing", "drifts")
		return err == nil
	})
	if _, err := c.rouse.Client.Pause(ctx, "test-billing", "drifts", "an incident"); err != nil {
		c.t.Fatal(err)
	}
	c.until("the status tells", func() bool { o, _ := c.get("timers", "billing", "drifts"); return *o.Status.State == "paused" })
	c.put("timers", "billing", "drifts", timerSpec(`"@every 3h"`))
	c.until("it is changed", func() bool { return c.timer("test-billing", "drifts").Spec.Schedule == "@every 3h" })
	c.is("timers", "billing", "drifts", "Applied", "")
	if now := c.timer("test-billing", "drifts"); !now.Paused {
		c.t.Errorf("with another spec it is paused no more: %+v", now)
	}
	c.delete("timers", "billing", "drifts")
	c.gone("timers", "billing", "drifts")
}

// others: timers of another owner are left alone, those of none are taken over.
func (c *cluster) others() {
	ctx := c.t.Context()
	for name, labels := range map[string]map[string]string{"theirs": {declare.OwnerLabel: "deploy"}, "orphan": nil} {
		if _, err := c.rouse.Client.Create(ctx, "test-shop", name, rouse.Spec{Schedule: "@every 5h", Target: "stream:x", Labels: labels}); err != nil {
			c.t.Fatal(err)
		}
		c.put("timers", "shop", name, timerSpec(`"@every 1h"`))
	}
	c.is("timers", "shop", "theirs", "Conflict", `belongs to the set "deploy"`)
	c.is("timers", "shop", "orphan", "Applied", "")
	for _, name := range []string{"theirs", "orphan"} {
		c.delete("timers", "shop", name)
		c.gone("timers", "shop", name)
	}
	if c.timer("test-shop", "theirs").Spec.Schedule != "@every 5h" {
		c.t.Error("the timer of another owner was changed")
	}
	c.noTimer("test-shop", "orphan")
}

// calendars: a timer waits for its calendar, and the calendar for the end of its timer.
func (c *cluster) calendars() {
	c.put("timers", "shop", "workdays", `{"schedule": "0 9 * * *", "target": "stream:x", "calendar": {"off": ["holidays"]}}`)
	c.is("timers", "shop", "workdays", "Invalid", "holidays")
	c.put("calendars", "shop", "holidays", `{"days": [{"date": "2090-12-24", "text": "Christmas Eve"}]}`)
	c.is("calendars", "shop", "holidays", "Applied", "")
	c.is("timers", "shop", "workdays", "Applied", "")
	c.put("calendars", "shop", "holidays", `{"days": [{"date": "2090-12-24"}, {"date": "2090-12-25"}]}`)
	c.until("the calendar has both days", func() bool {
		have, err := c.rouse.Client.Calendar(c.t.Context(), "test-shop", "holidays")
		return err == nil && len(have.Days) == 2
	})
	c.put("calendars", "shop", "weekends", `{"days": []}`)
	c.is("calendars", "shop", "weekends", "Invalid", "metadata.name")
	c.delete("calendars", "shop", "weekends")
	c.gone("calendars", "shop", "weekends")
	c.delete("calendars", "shop", "holidays")
	c.is("calendars", "shop", "holidays", "Conflict", "workdays")
	c.delete("timers", "shop", "workdays")
	c.gone("timers", "shop", "workdays")
	c.gone("calendars", "shop", "holidays")
	if _, err := c.rouse.Client.Calendar(c.t.Context(), "test-shop", "holidays"); !errors.Is(err, rouse.ErrNotFound) {
		c.t.Errorf("the calendar: %v", err)
	}
}

// ended: a timer that has fired is not made again.
func (c *cluster) ended() {
	at := rouse.At(c.rouse.Now().Add(time.Hour)).String()
	c.put("timers", "shop", "once", `{"schedule": "`+at+`", "target": "func:job"}`)
	c.is("timers", "shop", "once", "Applied", "")
	c.rouse.Advance(2 * time.Hour)
	o := c.is("timers", "shop", "once", "Ended", "its time has passed")
	c.until("the status has the fire", func() bool {
		o, _ = c.get("timers", "shop", "once")
		return o.Status.LastFire != nil && o.Status.LastFire.Due == at && o.Status.NextFire == nil && *o.Status.State == "ended"
	})
	if o.Status.Conditions[0].Status != "True" {
		c.t.Errorf("a timer that has done its work is not ready: %+v", o.Status)
	}
	c.noTimer("test-shop", "once")
	c.delete("timers", "shop", "once")
	c.gone("timers", "shop", "once")
}

// away: the controller goes on after the API server was away.
func (c *cluster) away() {
	c.put("timers", "shop", "before", timerSpec(`"@every 1h"`))
	c.is("timers", "shop", "before", "Applied", "")
	if err := c.EndAPI(); err != nil {
		c.t.Fatal(err)
	}
	c.StartAPI(c.whole)
	c.put("timers", "shop", "after", timerSpec(`"@every 1h"`))
	c.is("timers", "shop", "after", "Applied", "")
	for _, name := range []string{"before", "after"} {
		c.delete("timers", "shop", name)
		c.gone("timers", "shop", name)
	}
}

// prunes: the timer of an object whose finalizer was removed by hand is deleted, that of another owner is
// not. A new leader prunes at once.
func (c *cluster) prunes() {
	ctx := c.t.Context()
	labels := map[string]string{declare.OwnerLabel: "kubernetes"}
	if _, err := c.rouse.Client.Create(ctx, "test-shop", "left", rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Labels: labels}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.rouse.Client.Create(ctx, "elsewhere", "left", rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Labels: labels}); err != nil {
		c.t.Fatal(err)
	}
	var leads atomic.Bool
	c.start("test-", &leads)
	c.until("it is pruned", func() bool {
		_, err := c.rouse.Client.Get(ctx, "test-shop", "left")
		return errors.Is(err, rouse.ErrNotFound)
	})
	c.timer("elsewhere", "left")
	c.timer("test-shop", "theirs")
	leads.Store(false)
}
