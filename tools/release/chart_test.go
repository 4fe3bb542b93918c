package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const chart = "../../packaging/helm/rouse"

// TestTheValuesOfTheChart: what templates read is in values.yaml, and the schema describes the same values.
func TestTheValuesOfTheChart(t *testing.T) {
	var values, schema map[string]any
	for name, into := range map[string]*map[string]any{"values.yaml": &values, "values.schema.json": &schema} {
		body, err := os.ReadFile(filepath.Join(chart, name))
		if err == nil {
			err = yaml.Unmarshal(body, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil || len(templates) < 8 {
		t.Fatal(templates, err)
	}
	used := map[string]bool{}
	for _, name := range templates {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.Values\.(\w+(?:\.\w+)*)`).FindAllStringSubmatch(string(body), -1) {
			used[strings.Split(m[1], ".")[0]] = true
			if at := find(values, strings.Split(m[1], ".")); at == nil {
				t.Errorf("%s reads %s, which values.yaml does not have", filepath.Base(name), m[1])
			}
		}
	}
	described := find(schema, []string{"properties"}).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !used[name] {
			t.Errorf("no template reads the value %s", name)
		}
		if described[name] == nil {
			t.Errorf("values.schema.json does not have %s", name)
		}
		below, _ := values[name].(map[string]any)
		for inner := range below {
			if strict := find(schema, []string{"properties", name, "additionalProperties"}); strict == false && find(schema, []string{"properties", name, "properties", inner}) == nil {
				t.Errorf("values.schema.json does not have %s.%s", name, inner)
			}
		}
	}
	for name := range described {
		if _, ok := values[name]; !ok && name != "global" {
			t.Errorf("values.yaml does not have %s, which the schema describes", name)
		}
	}
}

// find returns the value at a path, nil if there is none.
func find(v any, path []string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		if v = m[key]; v == nil {
			return nil
		}
	}
	return v
}

// rendered returns the objects of the chart by their kinds and names.
func rendered(t *testing.T, values ...string) map[string]map[string]any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv("ROUSE_HELM"), append([]string{"template", "rouse", chart, "--namespace", "timers", "--set",
		"image.repository=registry.example/rouse"}, values...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", values, err, out)
	}
	objects := map[string]map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var o map[string]any
		if err := d.Decode(&o); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatalf("%v: %v\n%s", values, err, out)
		}
		if o != nil {
			name := fmt.Sprint(o["kind"], " ", find(o, []string{"metadata", "name"}))
			if in := find(o, []string{"metadata", "namespace"}); in != nil {
				name += fmt.Sprint(" in ", in)
			}
			objects[name] = o
		}
	}
}

// TestTheChart renders and lints the chart by Helm, whose path is in ROUSE_HELM: make test-chart. Settings of
// the rendered configuration are checked by rouse itself.
func TestTheChart(t *testing.T) {
	if os.Getenv("ROUSE_HELM") == "" {
		t.Skip("by request: make test-chart")
	}
	rouse := os.Getenv("ROUSE_BINARY")
	if rouse == "" {
		rouse = filepath.Join(t.TempDir(), "rouse")
		command(t, "../..", "go", "build", "-o", rouse, "./cmd/rouse")
	}
	secured := []string{"--set", "tls.secret=tls,tls.clientCA=true,adminKey.secret=admin,sealingKeys.secret=sealing"}
	shared := append([]string{"--set", "store.secret=store,replicas=3,config.history-age=168h,config.max-deliveries=100"}, secured...)
	for name, c := range map[string]struct {
		values  []string
		objects []string
	}{
		"one node":  {secured, []string{"StatefulSet rouse", "Service rouse", "Service rouse-admin", "ServiceAccount rouse", "ConfigMap rouse", "NetworkPolicy rouse"}},
		"open node": {[]string{"--set", "insecure=true,networkPolicy.enabled=false"}, []string{"StatefulSet rouse", "Service rouse", "Service rouse-admin", "ServiceAccount rouse", "ConfigMap rouse"}},
		"nodes": {append([]string{"--set", "serviceMonitor.enabled=true,serviceMonitor.keySecret=prometheus"}, shared...), []string{"Deployment rouse", "Service rouse", "Service rouse-admin",
			"ServiceAccount rouse", "ConfigMap rouse", "NetworkPolicy rouse", "PodDisruptionBudget rouse", "Role rouse", "RoleBinding rouse", "ServiceMonitor rouse"}},
		"controller": {append([]string{"--set", "controller.enabled=true,controller.key.secret=controller,controller.watch={shop,billing},controller.prefix=test-,controller.prune=true"}, secured...),
			[]string{"StatefulSet rouse", "Service rouse", "Service rouse-admin", "ServiceAccount rouse", "ConfigMap rouse", "NetworkPolicy rouse", "Deployment rouse-controller",
				"ServiceAccount rouse-controller", "Role rouse-controller", "RoleBinding rouse-controller", "Role timers-rouse-controller-objects in shop",
				"Role timers-rouse-controller-objects in billing", "RoleBinding timers-rouse-controller-objects in shop", "RoleBinding timers-rouse-controller-objects in billing",
				"CustomResourceDefinition timers.rouse.dev", "CustomResourceDefinition calendars.rouse.dev"}},
		"pools": {append([]string{"-f", "testdata/pools.yaml"}, shared...), []string{"Deployment rouse", "Service rouse", "Service rouse-admin",
			"ServiceAccount rouse", "ConfigMap rouse", "NetworkPolicy rouse", "PodDisruptionBudget rouse", "Role rouse", "RoleBinding rouse",
			"Role timers-rouse-workers in timers", "RoleBinding timers-rouse-workers in timers",
			"Role timers-rouse-workers in workers", "RoleBinding timers-rouse-workers in workers"}},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), os.Getenv("ROUSE_HELM"), append([]string{"lint", "--strict", chart, "--set", "image.repository=r"}, c.values...)...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			objects := rendered(t, c.values...)
			if have := slices.Sorted(maps.Keys(objects)); !slices.Equal(have, slices.Sorted(slices.Values(c.objects))) {
				t.Errorf("the objects are %v", have)
			}
			checkPod(t, objects[c.objects[0]])
			checkController(t, rouse, objects["Deployment rouse-controller"])
			text, _ := find(objects["ConfigMap rouse"], []string{"data", "rouse.yaml"}).(string)
			pools, _ := find(objects["ConfigMap rouse"], []string{"data", "pools.yaml"}).(string)
			checkSettings(t, rouse, text, pools, c.objects[0] == "Deployment rouse")
			checkWorkers(t, objects)
		})
	}
	for values, want := range map[string]string{
		"replicas=2,insecure=true":           "give store.secret",
		"insecure=true,config.pools=/p.yaml": "is set by the chart",
		"insecure=true,store.secret=s,pools[0].name=p,pools[0].transport=store,pools[0].driver.kubernetes.instance=i": "its workers would be left",
		"replicas=1":                                             "give both, or insecure=true",
		"insecure=true,config.store=mem:":                        "is set by the chart",
		"insecure=true,replica=2":                                "additional properties 'replica' not allowed",
		"insecure=true,image.repository=":                        "build an image",
		"insecure=true,tls.secret=Not_a.Nam":                     "does not match pattern",
		"tls.secret=t,adminKey.secret=a,controller.enabled=true": "the controller needs a key",
		"tls.secret=t,adminKey.secret=a,store.secret=s":          "need sealing keys",
	} {
		out, err := exec.CommandContext(t.Context(), os.Getenv("ROUSE_HELM"), "template", "rouse", chart, "--set", "image.repository=r,"+values).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, without %q:\n%s", values, err, want, out)
		}
	}
}

// checkWorkers checks that nodes whose pools have the driver kubernetes may do what it does, where it does
// it, and have a token for that.
func checkWorkers(t *testing.T, objects map[string]map[string]any) {
	t.Helper()
	for namespace, want := range map[string]string{"timers": "deployments statefulsets pods scaledobjects", "workers": "deployments statefulsets pods horizontalpodautoscalers"} {
		role := objects["Role timers-rouse-workers in "+namespace]
		if role == nil {
			continue
		}
		var have []string
		for _, rule := range find(role, []string{"rules"}).([]any) {
			for _, r := range find(rule, []string{"resources"}).([]any) {
				have = append(have, r.(string))
			}
		}
		if got := strings.Join(have, " "); got != want {
			t.Errorf("in %s nodes may change %s; want %s", namespace, got, want)
		}
		if find(objects["Deployment rouse"], []string{"spec", "template", "spec", "automountServiceAccountToken"}) != true {
			t.Error("nodes have no token for their pools")
		}
	}
}

// checkSettings has rouse read the rendered configuration, with secrets as they are in a pod whose address is
// of IPv4 or IPv6.
func checkSettings(t *testing.T, rouse, text, pools string, shared bool) {
	t.Helper()
	dir := t.TempDir()
	address := ""
	run := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), rouse, args...)
		if cmd.Env = append(os.Environ(), "ROUSE_ADVERTISE="+address, "QUEUE=amqp://guest:guest@queue/"); shared {
			cmd.Env = append(cmd.Env, "ROUSE_STORE=postgres://rouse@db.internal/rouse")
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("rouse %v: %v\n%s\n%s", args, err, out, text)
		}
		return out
	}
	run("cert", "dev", filepath.Join(dir, "tls"))
	files := map[string][]byte{"rouse.yaml": []byte(strings.ReplaceAll(text, "/etc/rouse/", dir+"/")), "admin/key": run("key", "generate"), "sealing/keys": run("secret", "new-key"),
		"config/pools.yaml": []byte(pools)}
	for name, body := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o440); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"server.crt": "tls.crt", "server.key": "tls.key"} {
		if err := os.Rename(filepath.Join(dir, "tls", from), filepath.Join(dir, "tls", to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ip := range []string{"10.0.0.12", "fd00::12"} {
		address = strings.ReplaceAll(advertised, "$(POD_IP)", ip)
		run("config", "--config", filepath.Join(dir, "rouse.yaml"))
	}
}

// advertised is the address of a pod, from which checkPod has seen that it is in the workload.
const advertised = "[$(POD_IP)]:7411"

// checkController checks that rouse takes the arguments of the controller, and that its pods are none of the
// nodes' service.
func checkController(t *testing.T, rouse string, workload map[string]any) {
	t.Helper()
	if workload == nil {
		return
	}
	if label := find(workload, []string{"spec", "template", "metadata", "labels", "app.kubernetes.io/name"}); label != "rouse-controller" {
		t.Errorf("the pods have the name %v", label)
	}
	containers := find(workload, []string{"spec", "template", "spec", "containers"}).([]any)
	var args []string
	for _, a := range find(containers[0], []string{"args"}).([]any) {
		args = append(args, a.(string))
	}
	if out, err := exec.CommandContext(t.Context(), rouse, append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("rouse %v: %v\n%s", args, err, out)
	}
	for _, want := range []string{"--watch=billing", "--prefix=test-", "--prune", "--ca=/etc/rouse/tls/ca.crt", "--key-file=/etc/rouse/key/key", "--server=rouse.timers.svc:7411"} {
		if !slices.Contains(args, want) {
			t.Errorf("the controller has not %s: %v", want, args)
		}
	}
}

// checkPod checks what Pod Security's level "restricted" demands, and that the probes ask what they stand
// for.
func checkPod(t *testing.T, workload map[string]any) {
	t.Helper()
	spec := find(workload, []string{"spec", "template", "spec"})
	body, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		SecurityContext struct {
			RunAsNonRoot   bool
			SeccompProfile struct{ Type string }
		}
		TerminationGracePeriodSeconds int
		EnableServiceLinks            *bool
		Containers                    []struct {
			LivenessProbe, ReadinessProbe, StartupProbe struct {
				HTTPGet struct{ Path, Port, Scheme string }
			}
			SecurityContext struct {
				ReadOnlyRootFilesystem   bool
				AllowPrivilegeEscalation *bool
				Capabilities             struct{ Drop []string }
			}
			VolumeMounts []struct{ Name string }
			Env          []struct{ Name, Value string }
		}
		Volumes []struct{ Name string }
	}
	if err := json.Unmarshal(body, &pod); err != nil || len(pod.Containers) != 1 {
		t.Fatalf("%v\n%s", err, body)
	}
	c := pod.Containers[0]
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || !c.SecurityContext.ReadOnlyRootFilesystem ||
		c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("the pod is not restricted:\n%s", body)
	}
	if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.StartupProbe.HTTPGet.Path != "/livez" || c.LivenessProbe.HTTPGet.Port != "admin" {
		t.Errorf("the probes are %+v", c)
	}
	if !slices.Contains(c.Env, struct{ Name, Value string }{"ROUSE_ADVERTISE", advertised}) {
		t.Errorf("the pod advertises something else than %s: %v", advertised, c.Env)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || pod.TerminationGracePeriodSeconds <= 25 {
		t.Errorf("service links, or %d s to end: the grace is 20 s, after 5 s", pod.TerminationGracePeriodSeconds)
	}
	volumes := map[string]bool{"data": true} // of a StatefulSet from its claim
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
}
