package amqp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// names builds the names of a pool's exchanges and queues.
type names struct{ pool string }

func (n names) requestExchange() string    { return n.pool + "-req-xchg" }
func (n names) orphanExchange() string     { return n.pool + "-orphan-xchg" }
func (n names) deadLetterExchange() string { return n.pool + "-dl-xchg" }
func (n names) activityExchange() string   { return n.pool + "-activity-xchg" }
func (n names) orphanQueue() string        { return n.pool + "-orphan" }
func (n names) deadLetters() string        { return n.pool + "-dl" }
func (n names) activityQueue() string      { return n.pool + "-activity" }
func (n names) poisonQueue() string        { return n.pool + "-poison" }
func (n names) asideQueue() string         { return n.pool + "-aside" }
func (n names) asideExchange() string      { return n.pool + "-aside-xchg" }
func (n names) lockQueue() string          { return n.pool + "-lock" }
func (n names) requestPrefix() string      { return n.pool + "-req-" }

// longestName is the maximum length of a queue name.
const longestName = 255

// requestQueue returns the name of the request queue of a key.
func (n names) requestQueue(key string) string {
	prefix := n.requestPrefix()
	return prefix + pool.Encode(key, longestName-len(prefix))
}

// checkGroup refuses a group whose name is longer than routing keys are.
func checkGroup(group string) error {
	if n := len(pool.GroupName(group)); n > pool.MaxKey {
		return rouse.Refuse("key", rouse.Shorten(pool.GroupName(group), 64),
			fmt.Sprintf("has %d bytes with its namespace", n),
			fmt.Sprintf("use at most %d, or let the pool share namespaces", pool.MaxKey))
	}
	return nil
}

// keyArgument is the argument of a queue whose name contains a hash: the whole encoded key.
const keyArgument = "x-rouse-key"

// keyOfQueue returns the key of a request queue, from its name or, if that contains a hash, from its
// argument.
func (n names) keyOfQueue(queue string, argument any) (string, bool) {
	suffix, ok := strings.CutPrefix(queue, n.requestPrefix())
	if !ok {
		return "", false
	}
	if key, ok := pool.Decode(suffix); ok {
		return key, true
	}
	text, _ := argument.(string)
	key, ok := pool.Decode(text)
	return key, ok && n.requestQueue(key) == queue
}

// answersDeadLetters reports whether this pool answers the dead letters of a queue.
func (n names) answersDeadLetters(queue string) bool {
	return queue == n.orphanQueue() || strings.HasPrefix(queue, n.requestPrefix())
}

// exactPattern returns a regular expression that matches exactly one name, prefix one for all names with a
// prefix.
func exactPattern(name string) string       { return "^" + regexp.QuoteMeta(name) + "$" }
func prefixPattern(beginning string) string { return "^" + regexp.QuoteMeta(beginning) }
