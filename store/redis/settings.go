package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/rousehq/rouse"
)

// settings describes how the servers keep data: with several servers, the weakest of each setting.
type settings struct {
	version string
	aof     string   // yes, no, or empty if the server does not report it
	fsync   string   // always, everysec, no, or empty
	evicts  string   // the eviction policy, or empty
	bounded bool     // there is a maxmemory
	full    float64  // the part of it that is in use
	writes  string   // how the last write of the append-only file ended: ok, err, or empty
	unknown []string // servers that did not answer
}

// minVersion is the first Redis that has all commands used here.
var minVersion = [2]int{6, 2}

// inspectServers asks all servers, and refuses those that are not suitable for timers. One of several
// independent servers may be away, but for the first, which has the clock.
func (s *Store) inspectServers(ctx context.Context) (out settings, err error) {
	var mu sync.Mutex
	first := true
	look := func(ctx context.Context, c goredis.UniversalClient, name string) error {
		is, err := readSettings(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := errors.Join(is.refuseUnfit(s.opts.AllowUnsafe), s.addr.ack.checkSupport(ctx, c)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if first {
			out, first = is, false
			return nil
		}
		out.mergeWeaker(is)
		return nil
	}
	var unknown []string
	var group errgroup.Group
	for i, c := range s.servers {
		group.Go(func() error {
			if cc, ok := c.(*goredis.ClusterClient); ok {
				return cc.ForEachMaster(ctx, func(ctx context.Context,
					c *goredis.Client) error {
					return look(ctx, c, "server "+c.Options().Addr)
				})
			}
			ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout/2)
			defer cancel()
			err := look(ctx, c, s.serverName(i))
			if i == 0 || !errors.Is(err, rouse.ErrUnavailable) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			unknown = append(unknown, s.serverName(i))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	out.unknown = slices.Sorted(slices.Values(unknown))
	if first {
		return out, errors.New("the Cluster has no masters")
	}
	return out, nil
}

// readSettings reads the settings of one server. Hosted servers often refuse CONFIG; INFO reports most of
// them.
func readSettings(ctx context.Context, c goredis.UniversalClient) (is settings, err error) {
	info := map[string]string{}
	for _, section := range []string{"server", "persistence", "memory"} {
		v, err := doCommand(ctx, c, 1, []any{"info", section})
		if err != nil {
			return is, explainRedisError(err)
		}
		text, _ := v.(string)
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				info[name] = value
			}
		}
	}
	is.version = info["redis_version"]
	switch info["aof_enabled"] {
	case "1":
		is.aof = "yes"
	case "0":
		is.aof = "no"
	}
	is.evicts = info["maxmemory_policy"]
	is.bounded = info["maxmemory"] != "" && info["maxmemory"] != "0"
	if most, _ := strconv.ParseFloat(info["maxmemory"], 64); most > 0 {
		used, _ := strconv.ParseFloat(info["used_memory"], 64)
		is.full = used / most
	}
	is.writes = info["aof_last_write_status"]
	for name, to := range map[string]*string{"appendonly": &is.aof, "appendfsync": &is.fsync,
		"maxmemory-policy": &is.evicts} {
		v, err := doCommand(ctx, c, 1, []any{"config", "get", name})
		if err != nil {
			if _, ok := errors.AsType[goredis.Error](err); ok {
				continue
			}
			return is, err
		}
		if pair, err := asTexts(v); err == nil && len(pair) == 2 {
			*to = pair[1]
		}
	}
	return is, nil
}

// refuseUnfit refuses settings that lose timers silently.
func (is *settings) refuseUnfit(allowUnsafe bool) error {
	var major, minor int
	if _, err := fmt.Sscanf(is.version, "%d.%d", &major, &minor); err != nil || major < minVersion[0] ||
		major == minVersion[0] && minor < minVersion[1] {
		return fmt.Errorf("is Redis %s; use %d.%d or later", is.version, minVersion[0], minVersion[1])
	}
	if strings.HasPrefix(is.evicts, "allkeys-") {
		return fmt.Errorf(
			"maxmemory-policy is %s: Redis would silently delete timers when memory is short; set it to noeviction", is.evicts)
	}
	switch {
	case is.aof == "yes" || allowUnsafe:
		return nil
	case is.aof == "":
		return errors.New(
			"does not report whether it has an append-only file, neither in INFO persistence nor in CONFIG GET appendonly; " +
				"permit one of them, or allow unsafe stores if losing timers is acceptable when Redis ends")
	}
	return errors.New(
		"appendonly is no: all timers since the last snapshot would be lost when it ends; set appendonly yes, or allow unsafe stores if that is acceptable")
}

// mergeWeaker combines the settings with those of another server.
func (is *settings) mergeWeaker(other settings) {
	if other.aof != "yes" {
		is.aof = other.aof
	}
	rank := map[string]int{"always": 3, "everysec": 2, "no": 1}
	if rank[other.fsync] < rank[is.fsync] {
		is.fsync = other.fsync
	}
	is.bounded = is.bounded || other.bounded
	is.full = max(is.full, other.full)
	if is.writes == "" || is.writes == "ok" {
		is.writes = other.writes
	}
	is.version = min(is.version, other.version)
}

// describeDurability describes what can be lost with the settings.
func (is *settings) describeDurability(k kind, a ack) string {
	var parts []string
	switch {
	case is.aof == "no":
		parts = append(parts, "appendonly no: everything since the last snapshot is lost when Redis ends")
	case is.aof == "":
		parts = append(parts, "Redis does not report whether it has an append-only file: everything may be lost when it ends")
	case is.fsync == "always":
		parts = append(parts, "appendfsync always: nothing is lost when Redis dies or the power fails")
	case is.fsync == "everysec":
		parts = append(parts,
			"appendfsync everysec: the last one to two seconds are lost when the power fails, and when Redis dies while its disk is slow")
	case is.fsync == "no":
		parts = append(parts,
			"appendfsync no: nothing is lost when Redis dies, the last half a minute or so when the power fails")
	default:
		parts = append(parts,
			"append-only file, appendfsync unknown: nothing is lost when Redis dies, the last seconds may be when the power fails")
	}
	switch {
	case a.replicas > 0 && a.fsync:
		parts = append(parts,
			fmt.Sprintf(
				"a write is on the disks of the server and of %d replicas before it is acknowledged: a failover to one of these loses nothing", a.replicas))
	case a.replicas > 0:
		parts = append(parts,
			fmt.Sprintf("%d replicas have a write before it is acknowledged: a failover to one of them loses nothing",
				a.replicas))
	case a.fsync:
		parts = append(parts, "a write is on the disk of the server before it is acknowledged")
	}
	switch {
	case a.replicas > 0:
	case k == sentinel, k == cluster:
		parts = append(parts, "a failover loses what the replica had not received yet")
	case k == several:
		parts = append(parts, "each server has its own share: losing one server loses its timers")
	}
	for _, name := range is.unknown {
		parts = append(parts, name+" did not answer: its settings are not known")
	}
	return strings.Join(parts, "; ")
}
