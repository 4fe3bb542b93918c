package redis

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rousehq/rouse"
)

// kind is how servers stand to each other.
type kind int

const (
	single kind = iota
	several
	sentinel
	cluster
)

// address is where a store is.
type address struct {
	kind     kind
	single   []*goredis.Options // of a single server, or of several
	failover *goredis.FailoverOptions
	cluster  *goredis.ClusterOptions
	text     string // without passwords
}

func (a address) String() string { return a.text }

const addressCure = "use redis://host:6379/0, several of them with commas between them, redis+sentinel://h1:26379,h2:26379/name or redis+cluster://h1:6379,h2:6379"

// parseAddress reads an address; the package comment has the forms.
func parseAddress(text string) (a address, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return a, rouse.Refuse("store", redacted(text), "is no address of a Redis", addressCure)
	}
	switch scheme {
	case "redis", "rediss":
		return parseServers(scheme, text)
	case "redis+sentinel", "rediss+sentinel":
		a.kind = sentinel
	case "redis+cluster", "rediss+cluster":
		a.kind = cluster
	default:
		return a, rouse.Refuse("store", redacted(text), "has a scheme that is none of Redis'", addressCure)
	}
	return a, a.parseMany(strings.TrimSuffix(strings.TrimSuffix(scheme, "+sentinel"), "+cluster"), scheme, rest)
}

// parseServers reads the addresses of one server, or of several.
func parseServers(scheme, text string) (a address, err error) {
	var shown []string
	for _, part := range strings.Split(text, ",") {
		if !strings.Contains(part, "://") {
			part = scheme + "://" + part
		}
		o, err := goredis.ParseURL(part)
		if err != nil {
			return a, rouse.Refuse("store", redacted(part), unquoted(err), addressCure)
		}
		same := func(other *goredis.Options) bool { return other.Addr == o.Addr && other.DB == o.DB }
		if slices.ContainsFunc(a.single, same) {
			return a, rouse.Refuse("store", redacted(part), "is there twice", "name each server once")
		}
		a.single, shown = append(a.single, o), append(shown, redacted(part))
	}
	if len(a.single) > 1 {
		a.kind = several
	}
	if len(a.single) > maxShards {
		return a, rouse.Refuse("store", "", fmt.Sprintf("names %d servers", len(a.single)), fmt.Sprintf("use at most %d", maxShards))
	}
	a.text = strings.Join(shown, ",")
	return a, nil
}

// parseMany reads the address of a Cluster or of Sentinels: several hosts of one server, in the words of go-redis.
func (a *address) parseMany(scheme, whole, rest string) (err error) {
	query := ""
	rest, query, _ = strings.Cut(rest, "?")
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = rest[:at+1], rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	a.text = whole + "://" + hosts
	refuse := func(wrong string) error { return rouse.Refuse("store", a.text, wrong, addressCure) }
	names := strings.Split(hosts, ",")
	if slices.Contains(names, "") {
		return refuse("has no host")
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return refuse("has parameters that cannot be read")
	}
	own := func(name string) string { // what go-redis does not read from an address
		v := parameters.Get(name)
		parameters.Del(name)
		return v
	}
	login, password, skip := own("sentinel_username"), own("sentinel_password"), own("skip_verify") == "true"
	for _, h := range names[1:] {
		parameters.Add("addr", h)
	}
	if a.kind == cluster {
		if path != "" && path != "0" {
			return refuse("has a database, and a Cluster has none")
		}
		a.cluster, err = goredis.ParseClusterURL(scheme + "://" + user + names[0] + "?" + parameters.Encode())
	} else {
		master, db, _ := strings.Cut(path, "/")
		if master == "" {
			return refuse("does not name the master that Sentinel knows")
		}
		a.text += "/" + path
		parameters.Set("master_name", master)
		a.failover, err = goredis.ParseFailoverURL(scheme + "://" + user + names[0] + "/" + db + "?" + parameters.Encode())
	}
	if err != nil {
		return refuse(unquoted(err))
	}
	var secure *tls.Config
	if a.kind == cluster {
		secure = a.cluster.TLSConfig
	} else {
		// For go-redis, the user of such an address is Sentinel's; here it is that of the server, as everywhere.
		a.failover.Username, a.failover.Password = a.failover.SentinelUsername, a.failover.SentinelPassword
		a.failover.SentinelUsername, a.failover.SentinelPassword = login, password
		secure = a.failover.TLSConfig
	}
	if secure != nil {
		secure.ServerName, secure.InsecureSkipVerify = "", skip // each server by its own name, not by the first one's
	}
	return nil
}

// connect makes a client for each server; it does not wait for connections.
//
// Nothing is retried by the clients: only the caller knows whether a write may be sent twice. RESP2 and no announcements keep a
// connection's start to the login, which every kind of server and the least privileged user have.
func (a address) connect(o Options) []goredis.UniversalClient {
	switch a.kind {
	case cluster:
		c := *a.cluster
		c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity, c.DisableRoutingPolicies = -1, true, 2, true, true
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout, o.Timeout, o.Timeout
		c.ReadOnly, c.RouteByLatency, c.RouteRandomly = false, false, false // a replica is behind
		c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return []goredis.UniversalClient{goredis.NewClusterClient(&c)}
	case sentinel:
		c := *a.failover
		c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity = -1, true, 2, true
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout, o.Timeout, o.Timeout
		c.ReplicaOnly, c.RouteByLatency, c.RouteRandomly, c.UseDisconnectedReplicas = false, false, false, false
		return []goredis.UniversalClient{goredis.NewFailoverClient(&c)}
	}
	clients := make([]goredis.UniversalClient, len(a.single))
	for i, of := range a.single {
		c := *of
		c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity = -1, true, 2, true
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout, o.Timeout, o.Timeout
		c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		clients[i] = goredis.NewClient(&c)
	}
	return clients
}

// redacted returns an address without its user, password and parameters.
func redacted(text string) string {
	text, _, _ = strings.Cut(text, "?")
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

// unquoted returns what an error of go-redis or net/url says, without the address, which has the password in it.
func unquoted(err error) string {
	if e, ok := err.(*url.Error); ok {
		return "cannot be read: " + e.Err.Error()
	}
	return "cannot be read: " + strings.TrimPrefix(err.Error(), "redis: ")
}
