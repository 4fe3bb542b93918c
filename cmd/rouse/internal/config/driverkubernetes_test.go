package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubernetesSettings holds that the example of docs/pools.md is taken, and that what is wrong is told.
func TestKubernetesSettings(t *testing.T) {
	access := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(access, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(pool, text string) error {
		f, err := ReadPools(poolsFileOf(t, "pools:\n  - name: core\n"+pool+text))
		if err != nil {
			return err
		}
		f.Pools[0].Driver.Kubernetes.Kubeconfig = access
		d, err := f.Pools[0].newDriver(slog.New(slog.DiscardHandler))
		if err != nil {
			return f.placeError(0, err)
		}
		return d.Close(t.Context())
	}
	const onRabbitMQ, onStore = "    amqp: amqp://guest:guest@127.0.0.1:1/\n", "    transport: store\n"
	body, err := os.ReadFile(poolDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(body), "```yml\ndriver:\n  kubernetes:\n")
	example, _, _ = strings.Cut(example, "```")
	if err := open(onRabbitMQ, "    driver:\n      kubernetes:\n"+indent(example)+"\n"); err != nil || !found {
		t.Errorf("the example of %s: %v", poolDoc, err)
	}
	const whole = "instance: a, template: {spec: {containers: [{name: w, image: i}]}}"
	for _, c := range []struct{ pool, text, want string }{
		{onRabbitMQ, "{" + whole + "}", ""},
		{onStore, "{" + whole + ", scaling: {hpa: {max: 3}}}", ""},
		{onStore, "{" + whole + ", scaling: {keda: {max: 3}}}", "the transport store has none"},
		{onRabbitMQ, "{" + whole + ", scaling: {keda: {max: 3, polling_interval: 5s, cooldown: 1m, value: 0.5}}}", ""},
		{onRabbitMQ, "{" + whole + ", scaling: {keda: {max: 3, value: many}}}", "pools.yaml:4"},
		{onRabbitMQ, "{" + whole + ", replicas: 3}", `unknown field "replicas"`},
		{onRabbitMQ, "{instance: a, template: {specs: {containers: [{name: w, image: i}]}}}", `"specs": is no field of a template`},
		{onRabbitMQ, "{instance: a}", "pool 1 (core): template"},
		{onRabbitMQ, "{template: {spec: {containers: [{name: w, image: i}]}}}", "instance:"},
		{onRabbitMQ, "{instance: \"${NO_SUCH_VARIABLE}\"}", "NO_SUCH_VARIABLE, which is not set"},
	} {
		err := open(c.pool, "    driver: {kubernetes: "+c.text+"}\n")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("of %s the result is %v, not %q", c.text, err, c.want)
		}
	}
}

// indent moves lines to where they are in a pools file.
func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
