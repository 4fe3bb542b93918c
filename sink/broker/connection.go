package broker

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Connection describes a broker. Zero fields have the defaults that their comments name.
type Connection struct {
	Name string // its name in targets: 1 to 64 of a-z, 0-9, '-', '_' and '.', with a letter or digit first
	// amqp://, amqps://, nats://, tls://, redis://, rediss://, with user and password as usual, or
	// {{secret:NAMESPACE/NAME}} (Sealed)
	URL string

	CA   string // PEM file of the authorities for the broker's certificate; default the system's
	Cert string // PEM file of the client certificate; default none
	Key  string // its private key

	// Allow are the allowed prefixes of the paths of targets, as they are written after the connection,
	// such as "events/order."; an entry that ends in '$' is a whole path. Without entries all paths are
	// allowed.
	Allow []string

	InFlight int           // messages of one target in progress, at most; default 1,024
	Patience time.Duration // how long fires wait for an unavailable broker without spending attempts; default 1 h
	Timeout  time.Duration // of connecting, and of calls other than publishing; default 10 s

	Credentials string // of NATS: file with the credentials of a user, a JWT and its seed; default none

	MaxLength int64 // of Redis: streams are trimmed to about this many entries; default no bound
	Replicas  int   // of Redis: how many replicas have to have an entry; default 0
}

const (
	defaultInFlight = 1024
	defaultPatience = time.Hour
	defaultTimeout  = 10 * time.Second
)

// WithDefaults returns the connection with defaults for zero fields.
func (c Connection) WithDefaults() Connection {
	c.InFlight = cmp.Or(c.InFlight, defaultInFlight)
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return c
}

// kinds maps the schemes of URLs to those of targets.
var kinds = map[string]string{"amqp": "amqp", "amqps": "amqp", "nats": "nats", "tls": "nats", "redis": "redis",
	"rediss": "redis"}

// Kind returns the scheme of the connection's targets; empty if its URL is not that of a broker.
func (c *Connection) Kind() string {
	scheme, _, _ := strings.Cut(c.URL, "://")
	return kinds[scheme]
}

// Host returns the host of the URL for people, without user and password.
func (c *Connection) Host() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "?"
	}
	return u.Host
}

// Secure reports whether the URL requires TLS.
func (c *Connection) Secure() bool {
	scheme, _, _ := strings.Cut(c.URL, "://")
	return scheme == "amqps" || scheme == "tls" || scheme == "rediss"
}

// Check returns everything that is wrong with the connection, as far as it can be seen without the broker.
// The problems do not contain the URL.
func (c *Connection) Check() error {
	var bad rouse.Invalid
	add := func(field, value, wrong, cure string) { bad.Add(rouse.Refuse(field, value, wrong, cure)) }
	if rouse.CheckNamespace(c.Name) != nil {
		add("name", c.Name, "is no name of a connection",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	plain, wrong := c.withoutSecrets()
	if wrong != "" {
		add("url", "", wrong, "use secrets as user and password only")
	}
	u, err := url.Parse(plain)
	kind := c.Kind()
	if c.URL == "" {
		add("url", "", "is missing",
			"give the address of the broker, such as amqps://user:password@host/vhost, nats://user:password@host:4222 or rediss://user:password@host:6379")
	} else if err != nil || kind == "" || u.Host == "" {
		add("url", "", "is not the URL of a broker",
			"begin it with amqp://, amqps://, nats://, tls://, redis:// or rediss://, and percent-encode what is special in a password")
	}
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{{"in_flight", int64(c.InFlight), 1, 1 << 16}, {"max_length", c.MaxLength, 1, 1 << 40},
		{"replicas", int64(c.Replicas), 1, 16}} {
		if n.value != 0 && (n.value < n.least || n.value > n.most) {
			add(n.name, fmt.Sprint(n.value), "is out of bounds", fmt.Sprintf("give %d to %d", n.least, n.most))
		}
	}
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"patience", c.Patience, time.Second, 31 * 24 * time.Hour},
		{"timeout", c.Timeout, 100 * time.Millisecond, time.Minute}} {
		if d.value != 0 && (d.value < d.least || d.value > d.most) {
			add(d.name, d.value.String(), "is out of bounds", fmt.Sprintf("give %v to %v", d.least, d.most))
		}
	}
	for _, of := range []struct {
		name, kind string
		given      bool
	}{{"credentials", "nats", c.Credentials != ""}, {"max_length", "redis", c.MaxLength != 0},
		{"replicas", "redis", c.Replicas != 0}} {
		if of.given && kind != "" && kind != of.kind {
			add(of.name, "", "is of connections of the kind "+of.kind, "leave it out")
		}
	}
	for _, a := range c.Allow {
		if a == "" {
			add("allow", "", "has an empty entry, which allows everything", "leave allow out, or give the prefixes of paths")
		}
	}
	bad.Add(c.checkFiles())
	return bad.Err()
}

func (c *Connection) checkFiles() error {
	var bad rouse.Invalid
	add := func(field, wrong, cure string) { bad.Add(rouse.Refuse(field, "", wrong, cure)) }
	switch {
	case (c.Cert == "") != (c.Key == ""):
		add("cert", "and key do not come together", "give both, or neither")
	case (c.CA != "" || c.Cert != "") && !c.Secure():
		add("ca", "and cert are of connections with TLS, and the URL asks for none",
			"write amqps://, tls:// or rediss://, or leave them out")
	case c.Secure():
		if _, err := c.TLS(); err != nil {
			add("ca", "cert or key cannot be used: "+err.Error(), "name PEM files that belong together")
		}
	}
	if c.Credentials != "" {
		if _, err := os.ReadFile(c.Credentials); err != nil {
			add("credentials", "cannot be read: "+err.Error(), "name the file that nsc or the operator of the NATS has made")
		}
	}
	return bad.Err()
}

// TLS reads the certificate files. It is called for each connect, so that they can be replaced while the
// server runs.
func (c *Connection) TLS() (*tls.Config, error) {
	o := &tls.Config{MinVersion: tls.VersionTLS12}
	if u, err := url.Parse(c.URL); err == nil {
		o.ServerName = u.Hostname()
	}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		o.RootCAs = x509.NewCertPool()
		if !o.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(c.CA + " has no certificate in PEM")
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		o.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}

// allowsPath reports whether a target may have the path. It compares the path as written, so that a place has
// only one spelling.
func (c *Connection) allowsPath(path string) bool {
	for _, a := range c.Allow {
		if whole, ok := strings.CutSuffix(a, "$"); ok && path == whole || !ok && strings.HasPrefix(path, a) {
			return true
		}
	}
	return len(c.Allow) == 0
}
