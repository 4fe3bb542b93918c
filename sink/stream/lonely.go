package stream

import (
	"time"

	"github.com/rousehq/rouse"
)

// lonely says since when fires of channels come in vain, because nobody subscribes here. A fire that finds nobody is put off
// for half of that time: a node that has just begun to fire a channel, after it started, or after another node failed, looks
// again soon, however late the fire is, since a client that follows the nodes will be there in a moment. A channel that stays
// without subscribers costs less and less.
type lonely map[channelKey]rouse.Instant

// maxLonely bounds the channels that are remembered; one that is forgotten begins anew.
const maxLonely = 4096

// since returns for how long the channel has been without subscribers.
func (l lonely) since(key channelKey, now rouse.Instant) time.Duration {
	first, ok := l[key]
	if !ok {
		for old := range l {
			if len(l) < maxLonely {
				break
			}
			delete(l, old)
		}
		l[key] = now
		return 0
	}
	return max(0, now.Sub(first))
}
