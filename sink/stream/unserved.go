package stream

import (
	"time"

	"github.com/rousehq/rouse"
)

// unserved is since when fires of channels have found no subscriber at this node. Such a fire is deferred for
// half of that time. So a node that has just begun to fire a channel, after its start or the failure of
// another node, retries soon however late the fire is: a client that follows the nodes will connect shortly.
// A channel that stays without subscribers costs less and less. A subscriber that arrives does not make
// deferred fires due: they are rows with a time in the store by then, which the engine would have to search
// and write again, at each connection of each client. Their pause of at most MaxPutOff is the bound.
type unserved map[channelKey]rouse.Instant

// maxUnserved bounds the remembered channels; a channel that is dropped starts again from zero.
const maxUnserved = 4096

// unservedFor returns for how long the channel has been without subscribers.
func (l unserved) unservedFor(key channelKey, now rouse.Instant) time.Duration {
	first, ok := l[key]
	if !ok {
		for old := range l {
			if len(l) < maxUnserved {
				break
			}
			delete(l, old)
		}
		l[key] = now
		return 0
	}
	return max(0, now.Sub(first))
}
