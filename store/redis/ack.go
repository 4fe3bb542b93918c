package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// ack has the copies of a write that Apply waits for, in addition to the memory of the server: the parameters
// ack_replicas and ack_fsync of an address.
type ack struct {
	replicas int  // that have it in memory
	fsync    bool // the server and these replicas have it on their disks, too
	patience time.Duration
}

// maxReplicas bounds the parameter ack_replicas.
const maxReplicas = 16

// takeParameters removes the parameters from an address.
func (a *ack) takeParameters(part string) (string, error) {
	base, query, _ := strings.Cut(part, "?")
	parameters, err := url.ParseQuery(query)
	if err != nil { // the address is refused as a whole
		return part, nil
	}
	refuse := func(name, cure string) error {
		return rouse.Refuse("store", redactAddress(part), name+" is "+strconv.Quote(parameters.Get(name)), cure)
	}
	if parameters.Has("ack_replicas") {
		n, err := strconv.Atoi(parameters.Get("ack_replicas"))
		if err != nil || n < 0 || n > maxReplicas {
			return "", refuse("ack_replicas", fmt.Sprintf("use 0 to %d", maxReplicas))
		}
		a.replicas = n
	}
	if parameters.Has("ack_fsync") {
		if a.fsync, err = strconv.ParseBool(parameters.Get("ack_fsync")); err != nil {
			return "", refuse("ack_fsync", "use true or false")
		}
	}
	parameters.Del("ack_replicas")
	parameters.Del("ack_fsync")
	if len(parameters) == 0 {
		return base, nil
	}
	return base + "?" + parameters.Encode(), nil
}

func (a ack) isUnset() bool { return a.replicas == 0 && !a.fsync }

// waitCommand returns the command that waits for the writes of its connection.
func (a ack) waitCommand(ctx context.Context) *goredis.Cmd {
	ms := a.patience.Milliseconds()
	if a.fsync {
		return goredis.NewCmd(ctx, "waitaof", 1, a.replicas, ms)
	}
	return goredis.NewCmd(ctx, "wait", a.replicas, ms)
}

// checkReached returns an error unless an answer of the command reports that enough have the writes.
func (a ack) checkReached(answer any) error {
	server, replicas := int64(1), answer
	if l, is := answer.([]any); is && a.fsync && len(l) == 2 {
		server, _ = l[0].(int64)
		replicas = l[1]
	}
	n, is := replicas.(int64)
	switch {
	case !is:
		return errAnswer
	case server < 1:
		return rouse.Unavailable(fmt.Errorf("a write is not on the server's disk after %v; ack_fsync asks for that",
			a.patience))
	case n < int64(a.replicas):
		return rouse.Unavailable(fmt.Errorf("a write is on %d replicas after %v; ack_replicas asks for %d", n, a.patience,
			a.replicas))
	}
	return nil
}

// checkSupport refuses servers and users for which the command does not work.
func (a ack) checkSupport(ctx context.Context, c goredis.UniversalClient) error {
	if a.isUnset() {
		return nil
	}
	now := a
	now.replicas, now.patience = 0, time.Millisecond
	_, err := doCommand(ctx, c, 1, now.waitCommand(ctx).Args())
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return errors.New("has no WAITAOF, which ack_fsync needs; use Redis 7.2 or later, or leave ack_fsync out")
	}
	return explainRedisError(err)
}

// runAndWait calls a script that writes, and waits until as many have the write as the address asks for. If
// they do not, the write was made, and the error is rouse.ErrUnavailable, as for an answer that was lost.
func (sh *shard) runAndWait(ctx context.Context, s script, args ...any) (any, error) {
	if sh.ack.isUnset() {
		return sh.runScript(ctx, s, args...)
	}
	on := sh.server
	if c, is := on.(*goredis.ClusterClient); is { // the command has no key by which a server could be found
		master, err := c.MasterForKey(ctx, sh.base)
		if err != nil {
			return nil, rouse.Unavailable(err)
		}
		on = master
	}
	all := append(append([]any{"evalsha", s.sha, 2}, sh.scriptKeys()...), args...)
	wrote, waited := command{goredis.NewCmd(ctx, all...)}, sh.ack.waitCommand(ctx)
	once := func() error {
		_, err := on.Pipelined(ctx, func(p goredis.Pipeliner) error {
			return errors.Join(p.Process(ctx, wrote), p.Process(ctx, command{waited}))
		})
		return err
	}
	err := once()
	if goredis.HasErrorPrefix(wrote.Err(), "NOSCRIPT") {
		all[0], all[1] = "eval", s.text
		wrote, waited = command{goredis.NewCmd(ctx, all...)}, sh.ack.waitCommand(ctx)
		err = once()
	}
	if err != nil && wrote.Err() == nil && waited.Err() == nil { // nothing was sent
		return nil, rouse.Unavailable(err)
	}
	for _, c := range []*goredis.Cmd{wrote.Cmd, waited} {
		switch err := c.Err(); {
		case goredis.HasErrorPrefix(err, "MOVED"), goredis.HasErrorPrefix(err, "ASK"): // nothing was written
			sh.server.(*goredis.ClusterClient).ReloadState(ctx)
			return nil, rouse.Unavailable(err)
		case noAnswer(err):
			return nil, rouse.Unavailable(err)
		case err != nil && !errors.Is(err, goredis.Nil):
			return nil, sh.noteIdentity(explainRedisError(err))
		}
	}
	return wrote.Val(), sh.noteIdentity(sh.ack.checkReached(waited.Val()))
}
