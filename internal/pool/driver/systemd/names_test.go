//go:build linux

package systemd

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// TestNamesOfInstances checks the names of instances.
func TestNamesOfInstances(t *testing.T) {
	n := names{prefix: "core-worker", pool: encodeName("core")}
	for key, want := range map[string]string{
		"42": "core-42-1", "": "core--1", "infra=42,timetable=24": "core-infra_3d42_2ctimetable_3d24-1", "../../x": "core-_2e._2f.._2fx-1",
		"a-b": "core-a_2db-1", "a_b": "core-a_5fb-1", "%i": "core-_25i-1", "a\x00b": "core-a_00b-1", "*?[": "core-_2a_3f_5b-1", `\x2d`: "core-_5cx2d-1",
	} {
		if got := n.instanceName(key, 1); got != want {
			t.Errorf("%q is %s, not %s", key, got, want)
		}
	}
	if all, of := n.poolPrefix(), n.prefixOfKey("42"); all != "core-" || of != "core-42-" {
		t.Errorf("all begin with %s, those of 42 with %s", all, of)
	}
	if got := objectPrefix("core-worker@core-42-1.service"); got != "/org/freedesktop/systemd1/unit/core_2dworker_40core_2d42_2d1_2eservice" {
		t.Errorf("its object is %s", got)
	}
}

// TestNamesAreSafe checks that every key gives a valid, unescaped name that is short enough, unique among
// pools, keys and numbers, and can be decoded.
func TestNamesAreSafe(t *testing.T) {
	any := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-_.a-z0-9/%\\*]{0,12}`), rapid.StringMatching(`k{150,300}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		n := names{prefix: rapid.SampledFrom([]string{"w", "core-worker", strings.Repeat("w", 150)}).Draw(t, "prefix"), pool: encodeName(rapid.SampledFrom([]string{"p", "p2", "p-k", ".p"}).Draw(t, "pool"))}
		type id struct {
			pool, key string
			number    int
		}
		one := id{n.pool, any.Draw(t, "key"), rapid.IntRange(1, 1<<31-1).Draw(t, "number")}
		other := id{encodeName(rapid.SampledFrom([]string{"p", "p2", "p-k", ".p"}).Draw(t, "other pool")), any.Draw(t, "other key"), rapid.IntRange(1, 20).Draw(t, "other number")}
		instance := n.instanceName(one.key, one.number)
		if (instance == names{n.prefix, other.pool}.instanceName(other.key, other.number)) != (one == other) {
			t.Errorf("%v and %v are %s", one, other, instance)
		}
		if unit := n.unitName(instance); len(unit) > longestUnit || len(instance) > longestInstance {
			t.Errorf("%s has %d bytes", unit, len(unit))
		}
		for _, c := range []byte(instance) {
			if !isAlphanumeric(c) && !strings.ContainsRune("_.-", rune(c)) {
				t.Errorf("%s has %q in it", instance, c)
			}
		}
		if strings.Count(instance, "-") != 2 || strings.HasPrefix(instance, ".") {
			t.Errorf("%s has other parts than three", instance)
		}
		if key, ok := decodeName(encodeName(one.key)); !ok || key != one.key {
			t.Errorf("%q comes back as %q", one.key, key)
		}
	})
}

// TestEscapingIsThatOfSystemd compares escape with systemd-escape.
func TestEscapingIsThatOfSystemd(t *testing.T) {
	program, err := exec.LookPath("systemd-escape")
	if err != nil {
		t.Skip("there is no systemd-escape here (package systemd)")
	}
	texts := []string{"core/42/1", "core//1", ".p/a.b/2", "a-b_c:d", "naïve 日本", `back\slash`, "~h", "a+b@c", "/"}
	out, err := exec.Command(program, append([]string{"--"}, texts...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(out))
	for i, text := range texts {
		if got := escapeUnitName(text); got != want[i] {
			t.Errorf("%q is %s, and systemd has %s", text, got, want[i])
		}
	}
}

// TestBadConfigurations checks that invalid settings are refused with the name of the setting.
func TestBadConfigurations(t *testing.T) {
	const unit = "core-worker@.service"
	for _, c := range []struct {
		field  string
		config Config
	}{
		{"unit", Config{}}, {"unit", Config{Unit: "core-worker.service"}}, {"unit", Config{Unit: "core-worker@1.service"}}, {"unit", Config{Unit: "@.service"}},
		{"unit", Config{Unit: "a/b@.service"}}, {"unit", Config{Unit: "a b@.service"}}, {"unit", Config{Unit: strings.Repeat("w", 200) + "@.service"}},
		{"unit", Config{Unit: unit, Pool: strings.Repeat("p", 150)}},
		{"bus", Config{Unit: unit, Bus: "sytem"}}, {"dir", Config{Unit: unit, Dir: "here"}}, {"dir", Config{Unit: unit, Dir: "/a[1]"}}, {"unit", Config{Unit: `a\x2db@.service`}},
		{"drain_timeout", Config{Unit: unit, Drain: -1}},
		{"first_pause", Config{Unit: unit, FirstPause: -1}}, {"longest_pause", Config{Unit: unit, LongestPause: -1}}, {"stable_after", Config{Unit: unit, Stable: -1}},
	} {
		_, err := New(c.config)
		inv, ok := errors.AsType[*rouse.Invalid](err)
		if !ok || inv.Problems[0].Field != c.field || !utf8.ValidString(err.Error()) {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
}

// TestPlaces checks the default locations of systemd and of the files.
func TestPlaces(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:abstract=x")
	for bus, want := range map[string]struct{ address, dir string }{
		"": {"unix:abstract=x", "/run/rouse/core-worker"}, User: {"unix:path=/run/user/7/bus", "/run/user/7/rouse/core-worker"},
	} {
		d := open(t, Config{Unit: "core-worker@.service", Bus: bus})
		if got := busAddress(d.config.Bus); got != want.address || d.config.Dir != want.dir {
			t.Errorf("of %q it is %s, with files in %s", bus, got, d.config.Dir)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := d.List(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("a closed driver returns %v", err)
		}
	}
	if got := busAddress("tcp:host=h,port=1"); got != "tcp:host=h,port=1" {
		t.Errorf("an address becomes %s", got)
	}
}
