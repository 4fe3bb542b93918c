package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// script is the text of a script and the hash by which Redis identifies it.
type script struct{ text, sha string }

func newScript(parts ...string) script {
	text := strings.Join(parts, "\n")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return script{text, hex.EncodeToString(sum[:])}
}

//go:embed common.lua
var commonText string

//go:embed index.lua
var indexText string

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
	applyScript  = newScript(commonText, indexText, endedText, applyText, changeText, writeText)
	lookScript   = newScript(commonText, indexText, windowText, lookText)
	sinceScript  = newScript(commonText, sinceText)
	holdScript   = newScript(commonText, indexText, windowText, holdText)
	listScript   = newScript(commonText, indexText, listText)
	recordScript = newScript(commonText, endedText, recordText)
	trimScript   = newScript(commonText, endedText, trimText)
	lockScript   = newScript(commonText, lockText)
	clockScript  = newScript(commonText, `local now = clock() return now`)

	// Makes revisions continue above a number, by keeping them ahead of the clock, in microseconds.
	raiseScript = newScript(commonText, `local last = counter()
ahead = math.max(ahead, tonumber(ARGV[2]))
loosen()
give(math.max(last, tonumber(ARGV[1])))
return 1`)
)

var errAnswer = errors.New("unexpected answer of a script")

// command is never retried by go-redis when its outcome is unknown: a change that was made, but whose answer
// was lost, would be reported as refused. The caller decides.
type command struct{ *goredis.Cmd }

// NoRetry prevents retries by go-redis.
func (command) NoRetry() bool { return true }

// runScript calls a script on the shard, and sends its text if the server does not have it.
//
// The script declares two keys that never exist. While the shard's slot moves to another server of a Cluster,
// one server redirects to the other, and the other refuses calls with several keys. So neither runs the
// script with only a part of the shard's keys. With a single key, the other server would. The second key
// carries the id of the store, and the highest revision that is known here (common.lua).
func (sh *shard) runScript(ctx context.Context, s script, args ...any) (any, error) {
	v, err := evalScript(ctx, sh.server, s, sh.scriptKeys(), args)
	return v, sh.noteIdentity(err)
}

func (sh *shard) scriptKeys() []any {
	return []any{sh.base, sh.base + "-" + sh.id + "-" + strconv.FormatUint(sh.past.known.Load(), 10)}
}

// readScript runs a command that only reads a key of the shard.
var readScript = newScript(commonText, `return call(ARGV[1], base .. ARGV[2], unpack(ARGV, 3))`)

// readTexts reads a list of texts from a key of the shard.
func (sh *shard) readTexts(ctx context.Context, command, key string) ([]string, error) {
	v, err := sh.runScript(ctx, readScript, command, key)
	if err != nil {
		return nil, err
	}
	return asTexts(v)
}

// runIndexed calls a script that needs the indexes. The script answers with a text, the argument at a place
// of the next call, until they have all near rows that were written before the first one.
func (sh *shard) runIndexed(ctx context.Context, s script, at int, args ...any) ([]any, error) {
	for {
		v, err := sh.runScript(ctx, s, args...)
		if err != nil {
			return nil, err
		}
		target, again := v.(string)
		if !again {
			return asList(v, nil)
		}
		args[at] = target
	}
}

func evalScript(ctx context.Context, on goredis.UniversalClient, s script, keys, args []any) (any, error) {
	all := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", s.sha, len(keys))
	all = append(append(all, keys...), args...)
	v, err := doCommand(ctx, on, 3, all)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") { // the script did not run
		all[0], all[1] = "eval", s.text // also stores it for the next call
		v, err = doCommand(ctx, on, 3, all)
	}
	if err != nil {
		return nil, explainRedisError(err)
	}
	return v, nil
}

// doCommand runs one command; key is the index of its first key, which decides the server in a Cluster.
func doCommand(ctx context.Context, on goredis.UniversalClient, key int8, args []any) (any, error) {
	c := command{goredis.NewCmd(ctx, args...)}
	c.SetFirstKeyPos(key)
	if err := on.Process(ctx, c); noAnswer(err) {
		return nil, rouse.Unavailable(err)
	} else if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, err
	}
	return c.Val(), nil
}

// asList returns an answer that is a list.
func asList(v any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	l, ok := v.([]any)
	if !ok {
		return nil, errAnswer
	}
	return l, nil
}

// asTexts returns an answer that is a list of texts.
func asTexts(v any) ([]string, error) {
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

// explainRedisError returns the error of this module for Redis errors that have one, and adds the cure to
// errors that an operator can fix.
func explainRedisError(err error) error {
	if err == nil {
		return nil
	}
	contains := func(what string) bool { return strings.Contains(err.Error(), what) }
	var ours goredis.Error
	switch {
	case !errors.As(err, &ours):
		return err
	case contains("ROUSELOST"):
		return errLost
	case contains("OOM command not allowed"): // before anything was written
		return rouse.ErrFull
	case contains("NOPERM"):
		return fmt.Errorf("%w; give the user of the store the permissions that it needs (ACL SETUSER)", err)
	case contains("WRONGPASS"), contains("NOAUTH"):
		return fmt.Errorf("%w; put user and password into the address of the store", err)
	case contains("TRYAGAIN"):
		return fmt.Errorf("%w; retry: the shard answers once its slot has moved to the other server", err)
	case contains("LOADING"), contains("CLUSTERDOWN"), contains("MASTERDOWN"):
		return rouse.Unavailable(err)
	case contains("MISCONF"):
		return fmt.Errorf("%w; Redis cannot write to its disk and therefore refuses writes", err)
	}
	return err
}
