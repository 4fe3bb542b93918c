package redis

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/redislink"
)

// kind is how the servers of a store are organized.
type kind int

const (
	single kind = iota
	several
	sentinel
	cluster
)

// address is the parsed address of a store.
type address struct {
	kind    kind
	servers []server // one server, or several independent ones, each alone or behind Sentinels
	cluster *goredis.ClusterOptions
	names   []string // of servers, without passwords
	text    string   // without passwords
	ack     ack
}

// server is one server, or a master that Sentinels report.
type server struct {
	alone    *goredis.Options
	failover *goredis.FailoverOptions
}

func (a address) String() string { return a.text }

const addressCure = "use redis://host:6379/0, redis+sentinel://h1:26379,h2:26379/name, several of these with commas between them, or redis+cluster://h1:6379,h2:6379"

// parseAddress reads an address; the package comment has the forms.
func parseAddress(text string) (a address, err error) {
	if !strings.Contains(text, "://") {
		return a, rouse.Refuse("store", redactAddress(text), "is not an address of Redis", addressCure)
	}
	parts := splitAddress(text)
	if len(parts) > maxShards {
		return a, rouse.Refuse("store", "", fmt.Sprintf("lists %d servers", len(parts)),
			fmt.Sprintf("use at most %d", maxShards))
	}
	for i, part := range parts {
		if part, err = a.ack.takeParameters(part); err != nil {
			return a, err
		}
		parts[i] = part
		scheme, rest, _ := strings.Cut(part, "://")
		base, form, _ := strings.Cut(scheme, "+")
		var one server
		switch {
		case base != "redis" && base != "rediss":
			return a, rouse.Refuse("store", redactAddress(part), "has a scheme that Redis does not have", addressCure)
		case form == "" && scheme == base:
			if one.alone, err = redislink.Parse(part); err != nil {
				return a, rouse.Refuse("store", redactAddress(part), "cannot be read: "+err.Error(), addressCure)
			}
			a.names = append(a.names, one.alone.Addr)
		case form == "sentinel":
			a.kind = sentinel
			if one.failover, err = parseSentinel(base, redactAddress(part), rest); err != nil {
				return a, err
			}
			a.names = append(a.names, one.failover.MasterName)
		case form == "cluster" && len(parts) == 1:
			a.kind, a.text = cluster, redactAddress(part)
			a.cluster, err = parseCluster(base, a.text, rest)
			return a, err
		case form == "cluster":
			return a, rouse.Refuse("store", redactAddress(part), "is a Cluster within a list of servers", addressCure)
		default:
			return a, rouse.Refuse("store", redactAddress(part), "has a scheme that Redis does not have", addressCure)
		}
		if slices.ContainsFunc(a.servers, one.sameDatabase) {
			return a, rouse.Refuse("store", redactAddress(part), "is listed twice", "list each server once")
		}
		a.servers = append(a.servers, one)
	}
	if len(a.servers) > 1 {
		a.kind = several
	}
	a.text = redactedList(parts)
	return a, nil
}

// splitAddress splits a list of addresses. The hosts of a Cluster are one address; so are the hosts of
// Sentinels, up to the one with a path. An address without a scheme has the scheme of the address before it.
func splitAddress(text string) (parts []string) {
	for piece := range strings.SplitSeq(text, ",") {
		if len(parts) > 0 && !strings.Contains(piece, "://") {
			last := &parts[len(parts)-1]
			scheme, rest, _ := strings.Cut(*last, "://")
			if strings.HasSuffix(scheme, "+cluster") || strings.HasSuffix(scheme, "+sentinel") && !strings.Contains(rest, "/") {
				*last += "," + piece
				continue
			}
			piece = scheme + "://" + piece
		}
		parts = append(parts, piece)
	}
	return parts
}

// sameDatabase reports whether two addresses lead to the same database.
func (s server) sameDatabase(o server) bool {
	if s.alone != nil {
		return o.alone != nil && s.alone.Addr == o.alone.Addr && s.alone.DB == o.alone.DB
	}
	return o.failover != nil && s.failover.MasterName == o.failover.MasterName && s.failover.DB == o.failover.DB &&
		slices.Equal(s.failover.SentinelAddrs, o.failover.SentinelAddrs)
}

// hosts contains the parts of an address with several hosts: Sentinels or a Cluster.
type hosts struct {
	user       string // including the @, or empty
	names      []string
	path       string
	parameters url.Values
	refuse     func(wrong string) error
}

func parseHosts(shown, rest string) (h hosts, err error) {
	h.refuse = func(wrong string) error { return rouse.Refuse("store", shown, wrong, addressCure) }
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.user, rest = rest[:at+1], rest[at+1:]
	}
	names, path, _ := strings.Cut(rest, "/")
	h.names, h.path = strings.Split(names, ","), path
	if slices.Contains(h.names, "") {
		return h, h.refuse("has no host")
	}
	if h.parameters, err = url.ParseQuery(query); err != nil {
		return h, h.refuse("has malformed parameters")
	}
	for _, name := range h.names[1:] {
		h.parameters.Add("addr", name)
	}
	return h, nil
}

// takeParameter removes and returns a parameter that go-redis does not know.
func (h *hosts) takeParameter(name string) string {
	v := h.parameters.Get(name)
	h.parameters.Del(name)
	return v
}

func parseCluster(scheme, shown, rest string) (*goredis.ClusterOptions, error) {
	h, err := parseHosts(shown, rest)
	if err != nil {
		return nil, err
	}
	if h.path != "" && h.path != "0" {
		return nil, h.refuse("has a database, and a Cluster has none")
	}
	skip := h.takeParameter("skip_verify") == "true"
	files := redislink.Files(h.parameters)
	o, err := goredis.ParseClusterURL(scheme + "://" + h.user + h.names[0] + "?" + h.parameters.Encode())
	if err != nil {
		return nil, h.refuse("cannot be read: " + redislink.WithoutURL(err))
	}
	ownName(o.TLSConfig, skip)
	if o.Dialer, err = redislink.Dialer(files, o.TLSConfig != nil); err != nil {
		return nil, h.refuse("cannot be used: " + err.Error())
	}
	return o, nil
}

func parseSentinel(scheme, shown, rest string) (*goredis.FailoverOptions, error) {
	h, err := parseHosts(shown, rest)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(h.path, "/")
	if master == "" {
		return nil, h.refuse("does not name the master, as in the path of its Sentinels")
	}
	login, password, skip := h.takeParameter("sentinel_username"), h.takeParameter("sentinel_password"),
		h.takeParameter("skip_verify") == "true"
	files := redislink.Files(h.parameters)
	h.parameters.Set("master_name", master)
	o, err := goredis.ParseFailoverURL(scheme + "://" + h.user + h.names[0] + "/" + db + "?" + h.parameters.Encode())
	if err != nil {
		return nil, h.refuse("cannot be read: " + redislink.WithoutURL(err))
	}
	// go-redis takes the user of such an address for Sentinel's; here it is the user of the server, as in all
	// other addresses.
	o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
	o.SentinelUsername, o.SentinelPassword = login, password
	ownName(o.TLSConfig, skip)
	if o.Dialer, err = redislink.Dialer(files, o.TLSConfig != nil); err != nil {
		return nil, h.refuse("cannot be used: " + err.Error())
	}
	return o, nil
}

// ownName makes TLS verify each server by its own name instead of the name of the first server.
func ownName(c *tls.Config, skip bool) {
	if c != nil {
		c.ServerName, c.InsecureSkipVerify = "", skip
	}
}

// connectAll creates a client for each server; it does not wait for connections.
//
// The clients retry nothing: only the caller knows whether a write may be sent twice. RESP2 without client
// announcements reduces the start of a connection to the login, which every kind of server and the least
// privileged user support.
func (a address) connectAll(o Options) []goredis.UniversalClient {
	if a.kind == cluster {
		c := *a.cluster
		c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity, c.DisableRoutingPolicies = -1, true,
			2, true, true
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout,
			o.Timeout, o.Timeout
		c.ReadOnly, c.RouteByLatency, c.RouteRandomly = false, false, false // a replica lags behind
		// only this finds a new master, as the client retries nothing
		c.ClusterStateReloadInterval = time.Second
		c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return []goredis.UniversalClient{goredis.NewClusterClient(&c)}
	}
	clients := make([]goredis.UniversalClient, len(a.servers))
	for i, s := range a.servers {
		clients[i] = s.connectServer(o)
	}
	return clients
}

func (s server) connectServer(o Options) goredis.UniversalClient {
	if s.failover != nil {
		c := *s.failover
		c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity = -1, true, 2, true
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout,
			o.Timeout, o.Timeout
		c.ReplicaOnly, c.RouteByLatency, c.RouteRandomly, c.UseDisconnectedReplicas = false, false, false, false
		return goredis.NewFailoverClient(&c)
	}
	c := *s.alone
	c.MaxRetries, c.ContextTimeoutEnabled, c.Protocol, c.DisableIdentity = -1, true, 2, true
	c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.PoolSize, o.DialTimeout, o.Timeout,
		o.Timeout, o.Timeout
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return goredis.NewClient(&c)
}

// redactedList returns a list of addresses without users, passwords and parameters.
func redactedList(parts []string) string {
	shown := make([]string, len(parts))
	for i, part := range parts {
		shown[i] = redactAddress(part)
	}
	return strings.Join(shown, ",")
}

// redactAddress returns an address without its user, password and parameters.
func redactAddress(text string) string {
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
