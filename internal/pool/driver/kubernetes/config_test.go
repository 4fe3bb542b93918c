package kubernetes

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/kubelink"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestNames checks that each key of each pool has a valid and unique name.
func TestNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.Rune(), 0, 300, -1), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringMatching(`[a-z0-9A-Z.:-]{0,12}`))
		a := [3]string{word.Draw(r, "instance"), word.Draw(r, "pool"), word.Draw(r, "key")}
		b := [3]string{word.Draw(r, "instance"), word.Draw(r, "pool"), word.Draw(r, "key")}
		name := workloadName(a[0], a[1], a[2])
		if !kubelink.IsLabel(name) || len(name) > longestName {
			r.Fatalf("%q is no name", name)
		}
		if scaler := "keda-hpa-" + name + "-" + newTurn(); !kubelink.IsLabel(scaler) {
			r.Fatalf("%q is no name", scaler)
		}
		if a != b && name == workloadName(b[0], b[1], b[2]) {
			r.Fatalf("%q and %q have the name %q", a, b, name)
		}
		for _, value := range []string{setOf(a[0], a[1]), newTurn(), labelOr(a[1])} {
			if !kubelink.IsLabelValue(value) {
				r.Fatalf("%q is no label", value)
			}
		}
		if key, ok := decodeKey(encodeKey(a[2])); !ok || key != a[2] {
			r.Fatalf("%q comes back as %q", a[2], key)
		}
	})
	for _, pair := range [][2][3]string{{{"a", "b", "c"}, {"a", "bc", ""}}, {{"a", "b-c", "d"}, {"a", "b", "c-d"}}, {{"a", "1:b", ""}, {"a", "", "1:b"}}, {{"i", "p", "A"}, {"i", "p", "a"}}} {
		if x, y := pair[0], pair[1]; workloadName(x[0], x[1], x[2]) == workloadName(y[0], y[1], y[2]) {
			t.Errorf("%q and %q have one name", x, y)
		}
	}
	if name := workloadName("rouse", "core", "Customer 42!"); !strings.HasPrefix(name, "core-customer-") {
		t.Errorf("people cannot read %q", name)
	}
}

// TestEnvironment checks the variables of workers: values are unchanged, those of this process are passed
// only if configured, and the template takes precedence.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "x")
	t.Setenv("NAMED", "y")
	c := testConfig(kubeconfig(t, "http://127.0.0.1:1", ""))
	c.Env, c.PassEnv, c.OmitEnv = map[string]string{"A": "1", "B": "$(HOME) $$ $"}, []string{"NAMED", "NOT_THERE"}, []string{"FROM_SECRET"}
	secret := map[string]any{"name": "WORKER_AMQP_URI", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "broker", "key": "uri"}}}
	worker(c.Template)["env"] = []any{secret, map[string]any{"name": "MINE", "value": "$(WORKER_KEY)"}}
	d := newDriver(t, c)
	r, err := d.renderWorkload(driver.Group{Key: "k", Workers: 1, Vars: map[string]string{"WORKER_KEY": "$(touch hacked)", "A": "2", "FROM_SECRET": "amqp://", "NUL": "a\x00b",
		"LATIN": "\xe9", "WORKER_AMQP_URI": "amqp://in.the.clear", "WORKER_ID": "forged", "EMPTY": ""}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range worker(r.template)["env"].([]any) {
		got = append(got, fmt.Sprint(v.(map[string]any)["name"], "=", v.(map[string]any)["value"]))
	}
	want := []string{"WORKER_ID=<nil>", "A=2", "B=$$(HOME) $$$$ $$", "EMPTY=", "NAMED=y", "WORKER_KEY=$$(touch hacked)", "WORKER_AMQP_URI=<nil>", "MINE=$(WORKER_KEY)"}
	if !slices.Equal(got, want) {
		t.Errorf("workers get %q, and not %q", got, want)
	}
	if worker(r.template)["env"].([]any)[6].(map[string]any)["valueFrom"] == nil {
		t.Error("the secret's place is gone")
	}
	if again, err := d.renderWorkload(driver.Group{Key: "k", Workers: 9, Vars: map[string]string{"A": "2"}}); err != nil || again.hash == r.hash {
		t.Errorf("other variables do not make another workload: %v", err)
	}
}

// TestBadConfigurations checks that invalid settings are refused with the name of the setting.
func TestBadConfigurations(t *testing.T) {
	good := testConfig(kubeconfig(t, "http://127.0.0.1:1", ""))
	in := func(change func(spec, container map[string]any)) map[string]any {
		m := template()
		change(m["spec"].(map[string]any), worker(m))
		return m
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, bad := range []struct {
		field, text string
		change      func(c *Config)
	}{
		{"kubeconfig", "no pod", func(c *Config) { c.Kubeconfig = "" }},
		{"kubeconfig", "no such file", func(c *Config) { c.Kubeconfig = "/no/such" }},
		{"kubeconfig", "cannot be used", func(c *Config) { c.Kubeconfig = empty }},
		{"namespace", "no name", func(c *Config) { c.Namespace = "Workers" }},
		{"instance", "no label", func(c *Config) { c.Instance = "a_b" }},
		{"instance", "missing", func(c *Config) { c.Instance = "" }},
		{"kind", "no kind", func(c *Config) { c.Kind = "DaemonSet" }},
		{"template", "missing", func(c *Config) { c.Template = nil }},
		{"template", "no field of a template", func(c *Config) { c.Template["specs"] = 1 }},
		{"template", "no template", func(c *Config) { c.Template = in(func(_, c map[string]any) { c["name"] = 1 }) }},
		{"template", "no containers", func(c *Config) { c.Template = in(func(s, _ map[string]any) { delete(s, "containers") }) }},
		{"template", "restart policy", func(c *Config) { c.Template = in(func(s, _ map[string]any) { s["restartPolicy"] = "Never" }) }},
		{"template", "given to the worker by the driver", func(c *Config) {
			c.Template = in(func(_, c map[string]any) { c["env"] = []any{map[string]any{"name": "WORKER_ID", "value": "x"}} })
		}},
		{"template", "given by the driver itself", func(c *Config) { c.Template["metadata"] = map[string]any{"labels": map[string]any{labelTurn: "x"}} }},
		{"container", "none of the template's", func(c *Config) { c.Container = "sidecar" }},
		{"labels", "given by the driver itself", func(c *Config) { c.Labels = map[string]string{labelManagedBy: "x"} }},
		{"labels", "no label", func(c *Config) { c.Labels = map[string]string{"a": "b c"} }},
		{"annotations", "no name", func(c *Config) { c.Annotations = map[string]string{"a b": "c"} }},
		{"env", "cannot be given", func(c *Config) { c.Env = map[string]string{"WORKER_ID": "x"} }},
		{"env", "cannot be given", func(c *Config) { c.Env = map[string]string{"A": "a\x00b"} }},
		{"scaling", "both", func(c *Config) { c.Scaling = Scaling{&HPA{Max: 2}, &KEDA{Max: 2}} }},
		{"hpa", "no range", func(c *Config) { c.Scaling.HPA = &HPA{} }},
		{"hpa", "no range", func(c *Config) { c.Scaling.HPA = &HPA{Min: 3, Max: 2} }},
		{"target_cpu", "no percentage", func(c *Config) { c.Scaling.HPA = &HPA{Max: 2, TargetCPU: -1} }},
		{"keda", "no range", func(c *Config) { c.Scaling.KEDA = &KEDA{} }},
		{"keda", "no range", func(c *Config) { c.Scaling.KEDA = &KEDA{Min: -1, Max: 1} }},
		{"value", "no number", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Value: math.NaN()} }},
		{"activation_value", "no number", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, ActivationValue: -1} }},
		{"mode", "no mode", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Mode: "x"} }},
		{"protocol", "no protocol", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Protocol: "x"} }},
		{"protocol", "rates", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Mode: modeRate, Protocol: "amqp"} }},
		{"host_from_env", "conflicts", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Authentication: "a", HostFromEnv: "B"} }},
		{"authentication", "no name", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Authentication: "A B"} }},
		{"authentication_cluster", "without", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Cluster: true} }},
		{"polling_interval", "whole seconds", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, PollingInterval: time.Millisecond} }},
		{"cooldown", "whole seconds", func(c *Config) { c.Scaling.KEDA = &KEDA{Max: 1, Cooldown: -time.Second} }},
	} {
		c := good
		c.Template = template()
		bad.change(&c)
		d, err := New(c)
		if err == nil {
			_ = d.Close(t.Context())
		}
		inv, ok := errors.AsType[*rouse.Invalid](err)
		if !ok || inv.Problems[0].Field != bad.field || !strings.Contains(err.Error(), bad.text) {
			t.Errorf("%s: %v, without %q", bad.field, err, bad.text)
		}
	}
	if d, err := New(good); err != nil {
		t.Error(err)
	} else if d.config.Namespace != "workers" || d.config.Container != "worker" || d.config.Kind != Deployment || d.Close(t.Context()) != nil {
		t.Errorf("the defaults are %+v", d.config)
	}
}

// TestRightsAreDocumented checks that docs/pools.md lists the rights that TestWithAKubernetes uses.
func TestRightsAreDocumented(t *testing.T) {
	rights, err := os.ReadFile("testdata/rights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := os.ReadFile("../../../../docs/pools.md"); err != nil || !strings.Contains(string(doc), string(rights)) {
		t.Errorf("it does not: %v", err)
	}
}
