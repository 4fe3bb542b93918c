package redis

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

func TestOpenRefusesServersThatLoseTimers(t *testing.T) {
	server := servers.StartRedis(t)
	for _, c := range []struct {
		name     string
		settings []string
		unsafe   bool
		want     []string // the error contains all of these; empty if no error is expected
	}{
		{"as it is", nil, false, nil},
		{"eviction of all keys", []string{"maxmemory-policy", "allkeys-lru"}, false, []string{"maxmemory-policy is allkeys-lru", "noeviction"}},
		{"eviction of all keys, unsafe", []string{"maxmemory-policy", "allkeys-random"}, true, []string{"maxmemory-policy is allkeys-random", "noeviction"}},
		{"eviction of keys that expire", []string{"maxmemory-policy", "volatile-lru"}, false, nil},
		{"no append-only file", []string{"appendonly", "no"}, false, []string{"appendonly is no", "set appendonly yes"}},
		{"no append-only file, unsafe", []string{"appendonly", "no"}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tell(t, server.Addr(), "config", "set", "appendonly", "yes", "maxmemory-policy", "noeviction")
			if len(c.settings) > 0 {
				tell(t, server.Addr(), "config", "set", c.settings[0], c.settings[1])
			}
			s, err := Open(t.Context(), server.URL(), Options{AllowUnsafe: c.unsafe})
			if err == nil {
				defer s.Close()
			}
			if (err != nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, word := range c.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v does not say %q", err, word)
				}
			}
		})
	}
}

func TestDurabilityReflectsTheSettings(t *testing.T) {
	server := servers.StartRedis(t)
	expect := func(want ...string) {
		t.Helper()
		s := openTest(t, server.URL(), Options{AllowUnsafe: true})
		defer s.Close()
		for _, word := range want {
			if !strings.Contains(s.Durability(), word) {
				t.Errorf("durability is %q, without %q", s.Durability(), word)
			}
		}
	}
	expect("everysec", "one to two seconds")
	tell(t, server.Addr(), "config", "set", "appendfsync", "always")
	expect("always", "nothing is lost")
	tell(t, server.Addr(), "acl", "setuser", "default", "-config")
	expect("append-only file", "appendfsync unknown")
	tell(t, server.Addr(), "acl", "setuser", "default", "+config")
	tell(t, server.Addr(), "config", "set", "appendonly", "no")
	expect("appendonly no", "everything since the last snapshot")
}

// TestTheDoctorSeesSettingsThatChange while the store is open.
func TestTheDoctorSeesSettingsThatChange(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	expect := func(check, severity, word string) {
		t.Helper()
		list, err := s.Diagnose(t.Context())
		i := slices.IndexFunc(list, func(f rouse.Finding) bool { return f.Check == check })
		if err != nil || i < 0 || list[i].Severity != severity || !strings.Contains(list[i].Seen, word) {
			t.Errorf("%+v, %v: not %s %s with %q", list, err, check, severity, word)
		}
	}
	expect(rouse.CheckStoreSettings, rouse.SeverityOK, "everysec")
	expect(rouse.CheckStoreSpace, rouse.SeverityOK, "no maxmemory")
	tell(t, server.Addr(), "config", "set", "maxmemory", "1mb")
	expect(rouse.CheckStoreSpace, rouse.SeverityWarning, "maxmemory are in use")
	tell(t, server.Addr(), "config", "set", "appendfsync", "no")
	expect(rouse.CheckStoreSettings, rouse.SeverityWarning, "half a minute")
	tell(t, server.Addr(), "config", "set", "appendonly", "no")
	expect(rouse.CheckStoreSettings, rouse.SeverityCritical, "appendonly is no")
	tell(t, server.Addr(), "config", "set", "appendonly", "yes", "maxmemory-policy", "allkeys-lru")
	expect(rouse.CheckStoreSettings, rouse.SeverityCritical, "allkeys-lru")
}

func TestAStoreIsOpenedWithItsServersInTheirOrder(t *testing.T) {
	a, b, c := servers.StartRedis(t), servers.StartRedis(t), servers.Redis(t)
	two := a.URL() + "," + b.URL()
	s := openTest(t, two, Options{})
	r := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: "a"}, State: rouse.StateScheduled}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: &r}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, two, Options{Shards: 7}) // applies only to a new store
	if rows, err := s.Get(t.Context(), []rouse.Key{r.Key}); err != nil || rows[0].Revision == 0 || len(s.shards) != 2 {
		t.Errorf("%+v in %d shards: %v", rows, len(s.shards), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused := func(url string, want string) {
		t.Helper()
		s, err := Open(t.Context(), url, Options{})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	refused(b.URL()+","+a.URL(), "in the order in which the store was created")
	refused(a.URL(), "is one of 2 servers of a store, the address names 1")
	refused(b.URL(), "is one of 2 servers of a store, the address names 1")
	refused(two+","+c, "is one of 2 servers of a store, the address names 3")
	refused(c+","+b.URL(), "has no data of the store")
	refused(a.URL()+","+c, "has no data of the store")
	tell(t, b.Addr(), "flushall")
	refused(two, "its data is lost")
	tell(t, a.Addr(), "set", "other:meta", "x")
	if _, err := Open(t.Context(), a.URL(), Options{Prefix: "other"}); err == nil || !strings.Contains(err.Error(), "other:meta does not belong to a store") {
		t.Errorf("a foreign key: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		url  string
		want string // the address for messages, or after an ! what the error contains
	}{
		{"redis://localhost:6379/2", "redis://localhost:6379/2"},
		{"rediss://u:p%40ss@h1:1/0,h2:2/0", "rediss://h1:1/0,rediss://h2:2/0"},
		{"redis://h1:1,redis://h2:2/3?dial_timeout=3s", "redis://h1:1,redis://h2:2/3"},
		{"redis+sentinel://u:secret@h1:1,h2:2/main", "redis+sentinel://h1:1,h2:2/main"},
		{"redis+sentinel://h1:1/main/4?sentinel_password=secret", "redis+sentinel://h1:1/main/4"},
		{"rediss+cluster://u:secret@h1:1,h2:2?skip_verify=true", "rediss+cluster://h1:1,h2:2"},
		{"redis+sentinel://u:secret@h1:1,h2:2/a,redis+sentinel://h1:1,h2:2/b/1", "redis+sentinel://h1:1,h2:2/a,redis+sentinel://h1:1,h2:2/b/1"},
		{"redis+sentinel://h1:1,h2:2/a,h1:1,h2:2/b,redis://h3:3/0", "redis+sentinel://h1:1,h2:2/a,redis+sentinel://h1:1,h2:2/b,redis://h3:3/0"},
		{"redis+sentinel://h1:1/a,redis+sentinel://h1:1/a", "!twice"},
		{"redis://u:secret@h1:1/0,redis+cluster://h2:2", "!is a Cluster within a list"},
		{"redis+what://u:secret@h1:1/0", "!scheme"},
		{"localhost:6379", "!is not an address of Redis"},
		{"http://localhost", "!scheme"},
		{"redis://h1:1/0,redis://h1:1/0", "!twice"},
		{"redis://u:secret@h1:1/x", "!cannot be read"},
		{"redis://u:secret%zz@h1:1/0", "!cannot be read"},
		{"redis+cluster://u:secret@h1:1/3", "!a Cluster has none"},
		{"redis+cluster://h1:1,,h2:2", "!has no host"},
		{"redis+cluster://u:secret@h1:1?what=3", "!cannot be read"},
		{"redis+sentinel://u:secret@h1:1", "!does not name the master"},
	} {
		a, err := parseAddress(c.url)
		got := a.String()
		if wrong, ok := strings.CutPrefix(c.want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want %q", c.url, err, wrong)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.url, got, err, c.want)
		}
	}
	a, err := parseAddress("rediss+sentinel://u:p%2Fw@h1:1,h2:2/main/4?sentinel_password=sp")
	if err != nil {
		t.Fatal(err)
	}
	if f := a.servers[0].failover; f.MasterName != "main" || f.DB != 4 || f.Username != "u" || f.Password != "p/w" || f.SentinelPassword != "sp" ||
		f.SentinelUsername != "" || strings.Join(f.SentinelAddrs, " ") != "h1:1 h2:2" || f.TLSConfig == nil || f.TLSConfig.ServerName != "" ||
		f.TLSConfig.InsecureSkipVerify {
		t.Errorf("%+v", f)
	}
	if a, err = parseAddress("redis+cluster://u:p@h1:1,h2:2"); err != nil {
		t.Fatal(err)
	}
	if f := a.cluster; strings.Join(f.Addrs, " ") != "h1:1 h2:2" || f.Username != "u" || f.Password != "p" || f.TLSConfig != nil {
		t.Errorf("%+v", f)
	}
	if _, err := Open(t.Context(), "redis://localhost:1/0", Options{Prefix: "{a}"}); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("a prefix with a hash tag: %v", err)
	}
}

func TestShardsAreSpreadEvenlyOverTheSlots(t *testing.T) {
	if crc := crc16("123456789"); crc != 0x31c3 {
		t.Fatalf("crc16 is %x", crc)
	}
	for _, n := range []int{1, 2, 16, 100, maxShards} {
		seen := map[int]bool{}
		for i := range n {
			_, tag, _ := strings.Cut(baseOf("p", i, n), "{")
			tag, _, _ = strings.Cut(tag, "}")
			seen[int(crc16(tag)%16384)*n/16384] = true
		}
		if len(seen) != n {
			t.Errorf("%d shards are in %d parts of the slots", n, len(seen))
		}
	}
}

// Servers contain data in this layout: with a changed rule, existing data would be lost.
func TestTheLayoutStays(t *testing.T) {
	s := &Store{shards: make([]shard, 16)}
	for name, want := range map[string]int{"a": 9, "b": 0, "timer-1": 1} {
		if got := s.shardOf(&rouse.Key{Namespace: "ns", Name: name, Fire: "whatever"}); got != want {
			t.Errorf("%s is in shard %d, want %d", name, got, want)
		}
	}
	for spread, want := range map[bool]int{false: 0, true: 8} {
		s.spread = spread
		if got := s.shardOf(&rouse.Key{Namespace: "ns", Name: "\x01a"}); got != want {
			t.Errorf("a note is in shard %d, want %d; spread: %v", got, want, spread)
		}
	}
	if got := baseOf("rouse", 3, 16); got != "rouse:{43}:" {
		t.Errorf("the base of shard 3 is %s", got)
	}
}

// Two shards may give the same sequence to records of the same time: each is still on the correct side of a
// cursor.
func TestCursorsTellTheRecordsOfShardsApart(t *testing.T) {
	s := &Store{shards: make([]shard, 4)}
	for of := range 4 {
		at := rouse.RecordCursor{Ended: 99, Seq: 1000*4 + uint64(of)}
		for shard := range 4 {
			before := binary.BigEndian.Uint64(s.idBefore(at, shard)[8:])
			if older := 1000 < before; older != (shard < of) || before < 1000 || before > 1001 {
				t.Errorf("shard %d reads before %d, after a record of shard %d with sequence 1000", shard, before, of)
			}
		}
	}
}
