package redis

import (
	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// Connect returns a client for the Redis at an address, with the same connection settings as Open, for
// callers that store other data there. It also returns the address without its password. It does not wait for
// a connection. It refuses a list of independent servers. It uses the options Timeout, DialTimeout and
// PoolSize.
func Connect(url string, o Options) (client goredis.UniversalClient, name string, err error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, "", err
	}
	if a.kind == several {
		return nil, "", rouse.Refuse("index", a.text, "lists several servers", "use a single server, a Cluster, or Sentinels")
	}
	if !a.ack.isUnset() {
		return nil, "", rouse.Refuse("index", a.text,
			"asks for acknowledgements of replicas, and what is in it can be made again", "leave ack_replicas and ack_fsync out")
	}
	return a.connectAll(o.withDefaults())[0], a.text, nil
}
