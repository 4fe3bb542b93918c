package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// script is a text that Redis runs, with the name that Redis gives it.
type script struct{ text, sha string }

func newScript(parts ...string) script {
	text := strings.Join(parts, "\n")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return script{text, hex.EncodeToString(sum[:])}
}

//go:embed common.lua
var commonText string

//go:embed window.lua
var windowText string

//go:embed apply.lua
var applyText string

//go:embed ended.lua
var endedText string

//go:embed change.lua
var changeText string

//go:embed write.lua
var writeText string

//go:embed look.lua
var lookText string

//go:embed since.lua
var sinceText string

//go:embed hold.lua
var holdText string

//go:embed list.lua
var listText string

//go:embed record.lua
var recordText string

//go:embed trim.lua
var trimText string

//go:embed lock.lua
var lockText string

var (
	applyScript  = newScript(commonText, endedText, applyText, changeText, writeText)
	lookScript   = newScript(commonText, windowText, lookText)
	sinceScript  = newScript(commonText, sinceText)
	holdScript   = newScript(commonText, windowText, holdText)
	listScript   = newScript(commonText, listText)
	recordScript = newScript(commonText, endedText, recordText)
	trimScript   = newScript(commonText, endedText, trimText)
	lockScript   = newScript(commonText, lockText)
	clockScript  = newScript(commonText, `local now = clock() return now`)

	// Revisions of up to maxKeys keys, 8 bytes each.
	revisionScript = newScript(commonText, `local out = call('HMGET', rows, unpack(ARGV))
for i = 1, #out do
  local blob = out[i]
  out[i] = blob and sub(blob, 1, 8) or zero
end
return table.concat(out)`)

	// Revisions go on above a number, so far ahead of the clock in microseconds.
	raiseScript = newScript(commonText, `local last = counter()
ahead = math.max(ahead, tonumber(ARGV[2]))
loosen()
give(math.max(last, tonumber(ARGV[1])))
return 1`)
)

var errAnswer = errors.New("the answer of Redis is not what the script gives")

// command is one that is never sent again by itself when its outcome is not known: a change that was made, and whose answer was
// lost, would come back as refused. The caller decides.
type command struct{ *goredis.Cmd }

// NoRetry tells go-redis.
func (command) NoRetry() bool { return true }

// run calls a script on the shard. A server that does not have it is given it.
//
// The two keys that it declares are never there. While the shard's slot of a Cluster moves to another server, that makes the one
// server point to the other, and the other refuse: neither runs the script on a part of the keys. With a single key the other would.
func (sh *shard) run(ctx context.Context, s script, args ...any) (any, error) {
	return run(ctx, sh.server, s, []any{sh.base, sh.base + "-"}, args)
}

func run(ctx context.Context, on goredis.UniversalClient, s script, keys, args []any) (any, error) {
	all := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", s.sha, len(keys))
	all = append(append(all, keys...), args...)
	v, err := do(ctx, on, 3, all)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") { // it was not run
		all[0], all[1] = "eval", s.text // which also keeps it for the next time
		v, err = do(ctx, on, 3, all)
	}
	if err != nil {
		return nil, explain(err)
	}
	return v, nil
}

// do runs one command, whose first key is the argument of that number; a Cluster is asked at the server that has it.
func do(ctx context.Context, on goredis.UniversalClient, key int8, args []any) (any, error) {
	c := command{goredis.NewCmd(ctx, args...)}
	c.SetFirstKeyPos(key)
	if err := on.Process(ctx, c); noAnswer(err) {
		return nil, rouse.Unavailable(err)
	} else if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, err
	}
	return c.Val(), nil
}

// list returns an answer that is a list.
func list(v any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	l, ok := v.([]any)
	if !ok {
		return nil, errAnswer
	}
	return l, nil
}

// texts returns an answer that is a list of texts.
func texts(v any) ([]string, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, errAnswer
	}
	out := make([]string, len(l))
	for i := range l {
		if out[i], ok = l[i].(string); !ok {
			return nil, errAnswer
		}
	}
	return out, nil
}

// explain makes the errors that mean something of Redis' own errors, and adds the cure to those that people can do something about.
func explain(err error) error {
	if err == nil {
		return nil
	}
	says := func(what string) bool { return strings.Contains(err.Error(), what) }
	var ours goredis.Error
	switch {
	case !errors.As(err, &ours):
		return err
	case says("OOM command not allowed"): // before anything was written
		return rouse.ErrFull
	case says("NOPERM"):
		return fmt.Errorf("%w; give the user of the store the permissions that it needs (ACL SETUSER)", err)
	case says("WRONGPASS"), says("NOAUTH"):
		return fmt.Errorf("%w; put user and password into the address of the store", err)
	case says("TRYAGAIN"):
		return fmt.Errorf("%w; the shard answers when its slot has moved to the other server", err)
	case says("LOADING"), says("CLUSTERDOWN"), says("MASTERDOWN"):
		return rouse.Unavailable(err)
	case says("MISCONF"):
		return fmt.Errorf("%w; Redis cannot write to its disk, and refuses what it could not keep", err)
	}
	return err
}
