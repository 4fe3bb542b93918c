package redislink

import (
	"strings"
	"testing"
	"time"
)

// Whatever is wrong with a URL, its error does not contain the password.
func TestErrorsContainNoPassword(t *testing.T) {
	for _, address := range []string{
		"redis://user:s3cret@host:port/0", "redis://user:s3cret@ho st:1/0", "redis://user:s3cret@host:6379/x", "http://user:s3cret@host",
		"redis://user:s3cret%zz@host:1", "redis://user:s3cret@host/0?read_timeout=x", "redis://user:s3cret@host/0?unknown=1", "redis://user:s3cret@[::1",
	} {
		_, err := Options(address, time.Second)
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "user") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if o, err := Options("rediss://user:s3cret@host:1/2", time.Second); err != nil || o.Addr != "host:1" || o.DB != 2 || o.TLSConfig == nil || o.MaxRetries != -1 {
		t.Errorf("%+v, %v", o, err)
	}
}
