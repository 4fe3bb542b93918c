// Package redislink reads the URL of a Redis, and sets up its client as all parts need it: the client retries nothing, because a
// command that is repeated may be executed twice, and only the caller knows whether that is right. Errors contain no password.
package redislink

import (
	"errors"
	"net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Parse reads a URL, redis:// or rediss://, with user, password and database.
func Parse(address string) (*goredis.Options, error) {
	o, err := goredis.ParseURL(address)
	if err != nil {
		return nil, errors.New(WithoutURL(err))
	}
	return o, nil
}

// Options returns the options of a client for a URL. The timeout is that of dialing and of each write and answer.
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
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return strings.TrimPrefix(err.Error(), "redis: ")
}
