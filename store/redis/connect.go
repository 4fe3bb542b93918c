package redis

import (
	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// Connect returns a client of the Redis that an address leads to, with the connections that Open would make, for those who keep
// something else than a store there; and the address without its password. It does not wait for a connection. Servers that do not
// know of each other are refused. Of the options, Timeout, DialTimeout and PoolSize count.
func Connect(url string, o Options) (client goredis.UniversalClient, name string, err error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, "", err
	}
	if a.kind == several {
		return nil, "", rouse.Refuse("index", a.text, "names several servers", "name one, or a Cluster, or Sentinels")
	}
	return a.connect(o.withDefaults())[0], a.text, nil
}
