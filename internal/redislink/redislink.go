// Package redislink reads the URL of a Redis, and sets up its client as all parts need it: the client retries
// nothing, because a command that is repeated may be executed twice, and only the caller knows whether that
// is right. Errors contain no password.
package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/certs"
)

// Parse reads a URL, redis:// or rediss://, with user, password and database. Its parameters ca, cert and key
// name PEM files: see Files.
func Parse(address string) (*goredis.Options, error) {
	var files certs.Files
	if base, query, found := strings.Cut(address, "?"); found {
		parameters, err := url.ParseQuery(query)
		if err != nil {
			return nil, errors.New("its parameters are malformed")
		}
		files = Files(parameters)
		address = base + "?" + parameters.Encode()
	}
	o, err := goredis.ParseURL(address)
	if err != nil {
		return nil, errors.New(WithoutURL(err))
	}
	o.Dialer, err = Dialer(files, o.TLSConfig != nil)
	return o, err
}

// Files takes the parameters that name PEM files out of those of a URL: ca, the authorities of the server's
// certificate, and cert and key of the client's.
func Files(parameters url.Values) certs.Files {
	f := certs.Files{CA: parameters.Get("ca"), Cert: parameters.Get("cert"), Key: parameters.Get("key")}
	for _, name := range []string{"ca", "cert", "key"} {
		parameters.Del(name)
	}
	if f != (certs.Files{}) {
		f.CAName, f.CertName, f.KeyName = "ca", "cert", "key"
	}
	return f
}

// Dialer returns a function that opens connections with files, which are read for each, so that they can be
// replaced; nil without files.
func Dialer(f certs.Files, secure bool) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	if f == (certs.Files{}) {
		return nil, nil
	}
	if !secure {
		return nil, errors.New("ca, cert and key are for TLS, and the address has none: begin it with rediss")
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, err := f.Client()
		if err != nil {
			return nil, err
		}
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
	}, nil
}

// Options returns the options of a client for a URL. The timeout is that of dialing and of each write and
// answer.
func Options(address string, timeout time.Duration) (*goredis.Options, error) {
	o, err := Parse(address)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
	return o, nil
}

// WithoutURL returns the text of an error about a URL without the URL, which may contain a password.
func WithoutURL(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return strings.TrimPrefix(err.Error(), "redis: ")
}
