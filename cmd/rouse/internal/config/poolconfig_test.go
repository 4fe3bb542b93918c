package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/kubernetes"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/internal/pool/driver/systemd"
)

const poolDoc = "../../../../docs/pools.md"

// TestPoolSettingsAreDocumented compares the tables of docs/pools.md with what a pools file may have, and its
// example with what is read.
func TestPoolSettingsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(poolDoc)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]bool{}
	for _, v := range []any{PoolsFile{}, poolEntry{}, driverEntry{}, subprocess.Config{}, dockerEntry{}, dockerMount{}, systemd.Config{}, kubernetes.Config{},
		kubernetes.Scaling{}, kubernetes.HPA{}, kubernetes.KEDA{}, windowEntry{}} {
		for f := range reflect.TypeOf(v).Fields() {
			name := f.Tag.Get("yaml")
			if name == "-" {
				continue
			}
			settings[name] = true
			if !strings.Contains(string(body), "`"+name+"`") && !strings.Contains(string(body), "`"+name+": {}`") {
				t.Errorf("%s does not tell of the setting %s", poolDoc, name)
			}
		}
	}
	_, file, _ := strings.Cut(string(body), "## The file")
	file, _, _ = strings.Cut(file, "## RabbitMQ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(file, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if !settings[strings.Trim(name, "`")] {
				t.Errorf("%s tells of %s, which is no setting", poolDoc, name)
			}
		}
	}
	_, example, _ := strings.Cut(string(body), "cat > pools.yaml <<'EOF'\n")
	example, _, _ = strings.Cut(example, "EOF\n")
	if f, err := ReadPools(poolsFileOf(t, example)); err != nil || len(f.Pools) != 1 || f.Listen != defaultPoolListen {
		t.Errorf("the example is read as %+v, %v", f, err)
	}
}

// TestPoolMetricsAreDocumented compares the metrics of pools with those that docs/pools.md names.
func TestPoolMetricsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(poolDoc)
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	m := pool.NewRegistry(r).Pool("core")
	m.Orphan("forwarded", 1)
	m.Requests(1, 1, 0)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`(rouse_pool_[a-z_]+)").FindAllStringSubmatch(string(body), -1) {
		named[name[1]] = true
	}
	there := make(chan *prometheus.Desc, 100)
	r.Describe(there)
	close(there)
	for d := range there {
		name := regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1]
		if !named[name] {
			t.Errorf("%s does not tell of %s", poolDoc, name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("%s tells of %s, which there is not", poolDoc, name)
	}
}

func poolsFileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestBadPoolsFiles holds that what is wrong in a pools file is told, and where.
func TestBadPoolsFiles(t *testing.T) {
	const head = "pools:\n  - name: core\n    amqp: amqp://guest:guest@127.0.0.1:1/\n"
	for text, want := range map[string]string{
		"":                             "is empty",
		"pools: []":                    "is empty",
		head + "    unbnd_delay: 3s\n": `pools.yaml:4: unknown field "unbnd_delay"`,
		head + "    unbind_delay: 3\n": `pools.yaml:4: pool 1 (core): unbind_delay "3": is no duration; add a unit`,
		head + "    amqp: x\n":         "pools.yaml:4: mapping key",
		head:                           "driver: is not exactly one",
		head + "    driver: {noop: {}, subprocess: {command: [sh]}}\n":                                              "driver: is not exactly one",
		head + "    driver: {subprocess: {comand: [sh]}}\n":                                                         `pools.yaml:4: unknown field "comand"`,
		head + "    driver: {docker: {instance: a, imag: b}}\n":                                                     `pools.yaml:4: unknown field "imag"`,
		head + "    driver: {docker: {mounts: [{src: b}]}}\n":                                                       `pools.yaml:4: unknown field "src"`,
		head + "    queue_type: fast\n    driver: {noop: {}}\n":                                                     "pools.yaml:4: pool 1 (core): queue_type",
		head + "    driver: {noop: {}}\n    workers: 1.5\n":                                                         "pools.yaml:5: pool 1 (core): workers",
		head + "    driver: {noop: {}}\n    workers: 0\n":                                                           "pools.yaml:5: pool 1 (core): workers",
		head + "    driver: {noop: {}}\n    workers: 1001\n":                                                        "pools.yaml:5: pool 1 (core): workers",
		head + "    message_ttl: 0s\n    driver: {noop: {}}\n":                                                      "pools.yaml:4: pool 1 (core): message_ttl",
		head + "    max_work: 20s\n    driver: {noop: {}}\n":                                                        `pools.yaml:4: pool 1 (core): max_work "20s"`,
		head + "    max_work: -1m\n    driver: {noop: {}}\n":                                                        "pools.yaml:4: pool 1 (core): max_work",
		head + "    message_ttl: +3s\n    driver: {noop: {}}\n":                                                     "pools.yaml:4: pool 1 (core): message_ttl",
		head + "    message_ttl: -3s\n    driver: {noop: {}}\n":                                                     "pools.yaml:4: pool 1 (core): message_ttl",
		head + "    driver: {noop: {}}\n    max_workers: 2\n    workers: 3\n":                                       "pools.yaml:5: pool 1 (core): max_workers",
		head + "    driver: {noop: {}}\n    pinned: [a, 3]\n":                                                       "",
		head + "    driver: {noop: {}}\n    transport: store\n":                                                     "pools.yaml:3: pool 1 (core): amqp",
		head + "    driver:\n      subprocess:\n        command: [sh]\n        drain_timeout: 0s\n":                 "pools.yaml:7: pool 1 (core): drain_timeout",
		head + "    driver: {noop: {}}\n  - name: other\n    driver: {noop: {}}\n":                                  "pools.yaml:5: pool 2 (other): amqp",
		"pools:\n  - name: core\n    amqp: amqp://${NO_SUCH_VARIABLE}/":                                             "NO_SUCH_VARIABLE, which is not set",
		head + "    driver: {noop: {}}\n" + head[7:] + "    driver: {noop: {}}\n":                                   "is the name of two pools",
		head + "    driver: {noop: {}}\n---\npools: []\n":                                                           "more than one document",
		head + "    unbind_delay: soon\n":                                                                           `pools.yaml:4: pool 1 (core): unbind_delay "soon": is no duration`,
		head + "    delivery_limit: many\n":                                                                         `pools.yaml:4: pool 1 (core): delivery_limit "many": is no whole number`,
		head + "    driver:\n      subprocess:\n        command: /bin/x --flag\n":                                   `pools.yaml:6: pool 1 (core): command "/bin/x --flag": is no list; write one such as`,
		head + "    driver: noop\n":                                                                                 `pools.yaml:4: pool 1 (core): driver "noop": has no settings`,
		"pools:\n  - name: [a]\n":                                                                                   "pools.yaml:2: pool 1 ([): name: is no text",
		"pools: 5\n":                                                                                                `pools.yaml:1: pools "5": is no list`,
		"pools:\n  - 5\n":                                                                                           `pools.yaml:2: pool 1 "5": has no settings`,
		"hosts: a.example\n" + head:                                                                                 `pools.yaml:1: hosts "a.example": is no list`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '0 22 * * *', zone: Europe/Stockholm, for: 8h}]\n": "",
		head + "    driver: {noop: {}}\n    windows: always\n":                                                      `pools.yaml:5: pool 1 (core): windows "always": is no list`,
		head + "    driver: {noop: {}}\n    windows: [{for: 8h}]\n":                                                 `pools.yaml:5: pool 1 (core): windows[0].schedule: is missing`,
		head + "    driver: {noop: {}}\n    windows:\n    - {schedule: '@daily', for: 1h}\n    - for: 8h\n      schedule: 0 25 * * *\n": `pools.yaml:8: pool 1 (core): windows[1].schedule "0 25 * * *"`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@daily', zone: Mars, for: 8h}]\n":                                     `windows[0].zone "Mars"`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@daily'}]\n":                                                          `windows[0].for "0s": is out of range`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@daily', for: 0s}]\n":                                                 `windows[0].for "0s": is out of range`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@daily', for: 10000h}]\n":                                             `windows[0].for "10000h0m0s": is out of range`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@daily', for: 8}]\n":                                                  `for "8": is no duration`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '@after 9s', for: 8h}]\n":                                              `windows[0].schedule "@after 9s": has one time`,
		head + "    driver: {noop: {}}\n    windows: [{schedule: '0 0 30 2 *', for: 8h}]\n":                                             `windows[0].schedule "0 0 30 2 *"`,
		"insecure: maybe\n" + head: `pools.yaml:1: insecure "maybe": is neither true nor false`,
		"pools: &p\n  - &c\n    name: &n core\n    amqp: &a amqp://guest:guest@127.0.0.1:1/\n    stop_delay: &d 5s\n    unbind_delay: *d\n    driver: &e {noop: {}}\n": "",
		"[": "pools.yaml:1",
	} {
		_, err := ReadPools(poolsFileOf(t, text))
		if want == "" {
			if err != nil {
				t.Errorf("of\n%s\nthe result is %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of\n%s\nthe result is %v, not %q", text, err, want)
		}
	}
	if _, err := ReadPools(filepath.Join(t.TempDir(), "no such file")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("of a file that is not there the result is %v", err)
	}
}

// TestCommandsThatAreNotThere holds that a program that cannot be started is told when the pool is made, with
// its line.
func TestCommandsThatAreNotThere(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"/no/such/program", "no-such-program", "./no/such", plain} {
		f, err := ReadPools(poolsFileOf(t, "pools:\n  - name: core\n    amqp: amqp://guest:guest@127.0.0.1:1/\n    driver:\n      subprocess:\n        command: ["+command+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Pools[0].newDriver(slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(f.placeError(0, err).Error(), "pools.yaml:6: pool 1 (core): command") {
			t.Errorf("of %s the result is %v", command, err)
		}
	}
}

// TestPoolURLsHaveVariables holds that passwords can come from the environment.
func TestPoolURLsHaveVariables(t *testing.T) {
	t.Setenv("SECRET_OF_THE_TEST", "s3cret")
	f, err := ReadPools(poolsFileOf(t, "pools:\n  - name: core\n    amqp: amqp://u:${SECRET_OF_THE_TEST}@h/\n    driver: {noop: {}}\n"))
	if err != nil || f.Pools[0].AMQP != "amqp://u:s3cret@h/" {
		t.Errorf("it reads %+v, %v", f, err)
	}
}

// TestDockerSettings checks that the container settings of a pools file are used, and wrong ones reported.
func TestDockerSettings(t *testing.T) {
	const head = "pools:\n  - name: core\n    amqp: amqp://guest:guest@127.0.0.1:1/\n    driver:\n      docker:\n"
	t.Setenv("INSTANCE_OF_THE_TEST", "blue")
	open := func(text string) error {
		f, err := ReadPools(poolsFileOf(t, head+text))
		if err != nil {
			return err
		}
		if strings.Contains(text, "drain_timeout: 1m") && f.Pools[0].workerDrainTime() != time.Minute {
			t.Errorf("workers are given %v to end", f.Pools[0].workerDrainTime())
		}
		d, err := f.Pools[0].newDriver(slog.New(slog.DiscardHandler))
		if err != nil {
			return f.placeError(0, err)
		}
		return d.Close(t.Context())
	}
	whole := "        {instance: \"${INSTANCE_OF_THE_TEST}\", image: w, memory: 512m, cpus: 1.5, drain_timeout: 1m, networks: [a, b], " +
		"mounts: [{type: bind, source: /a, target: /b, read_only: true}], extra_hosts: [\"db:10.0.0.1\"], pull: always, log_driver: local}\n"
	if err := open(whole); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"image: w":                  "pool 1 (core): instance:",
		"{instance: a}":             "image: is missing",
		"{instance: a/b, image: w}": "cannot begin the names of containers",
		"{instance: \"${NO_SUCH_VARIABLE}\", image: w}":                           "NO_SUCH_VARIABLE, which is not set",
		"{instance: a, image: w, memory: lots}":                                   "memory",
		"{instance: a, image: w, memory: 1k}":                                     "less than engines allow",
		"{instance: a, image: w, pull: daily}":                                    "no policy of pulling",
		"{instance: a, image: w, host: \"ssh://h\"}":                              "no address of an engine",
		"{instance: a, image: w, networks: [host, a]}":                            "goes with no other network",
		"{instance: a, image: w, drain_timeout: -1s}":                             "is negative",
		"{instance: a, image: w, labels: {rouse.key: x}}":                         "no label for workers",
		"{instance: a, image: w, mounts: [{type: bind, target: /b}]}":             "no absolute path",
		"{instance: a, image: w, log_options: {max-size: 1m}}":                    "without a log driver",
		"{instance: a, image: w, extra_hosts: [db]}":                              "no name and address",
		"{instance: a, image: w, mounts: [{type: disk, target: /b}]}":             "no type of mounts",
		"{instance: a, image: w, mounts: [{type: tmpfs, source: a, target: /b}]}": "is given for memory",
	} {
		if err := open("        " + text + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s the result is %v, not %q", text, err, want)
		}
	}
}
