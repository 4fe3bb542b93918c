package redis

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// past has the last known revision and era of a shard.
type past struct {
	known atomic.Uint64 // the highest revision that the shard has given to this Store
	era   atomic.Uint64 // the last one that a claim returned, plus one (common.lua)
	back  atomic.Int64  // until when claims report that the shard came back without its last writes, in Unix nanoseconds
}

// backFor is how long all claims report that a shard came back. Then the next claim is one that has it again,
// and the engine reads its whole part of the window.
const backFor = time.Second

// errBack is why a shard is missing that came back without its last writes: its rows are those of an earlier
// time, which claims since a token leave out.
var errBack = errors.New("it came back without its last writes, after a failover or from an older copy; " +
	"timers that were due in it fire again")

func (sh *shard) isBack() bool { return time.Now().UnixNano() < sh.past.back.Load() }

// learnToken records the revision and era in the token of a claim's answer.
func (sh *shard) learnToken(answer []any) {
	text, _ := answer[1].(string)
	token, era, ok := parseToken(text)
	if !ok {
		return
	}
	sh.noteGivenRevision(max(token, 1) - 1)
	if was := sh.past.era.Swap(era + 1); was != 0 && was != era+1 {
		sh.past.back.Store(time.Now().Add(backFor).UnixNano())
	}
}

// noteGivenRevision records a revision that the shard has given.
func (sh *shard) noteGivenRevision(revision uint64) {
	for {
		known := sh.past.known.Load()
		if revision <= known || sh.past.known.CompareAndSwap(known, revision) {
			return
		}
	}
}

// parseToken parses the result of the function token of common.lua.
func parseToken(text string) (token, era uint64, ok bool) {
	first, second, _ := strings.Cut(text, ":")
	token, err := strconv.ParseUint(first, 10, 64)
	era, err2 := strconv.ParseUint(second, 10, 64)
	return token, era, err == nil && err2 == nil
}
