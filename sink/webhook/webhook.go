// Package webhook delivers fires as HTTP requests. Receivers in Go use it to verify signatures:
//
//	err := webhook.Verify(secrets, r.Header, body, time.Now())
//
// # Requests
//
// A fire is a CloudEvent 1.0 in HTTP's binary mode: the payload is the body, its content type is
// Content-Type, and the attributes are headers:
//
//	ce-id             fire id: the same for every attempt, the receiver's idempotency key
//	ce-source         /namespaces/{namespace}/timers/{name}
//	ce-type           dev.rouse.fire.v1
//	ce-time           the due time, not the time of the attempt
//	ce-subject        the timer's name
//	ce-attempt        1 is the first
//	ce-token          fencing token: grows from attempt to attempt; refuse older ones than you saw
//	ce-generation     of the timer: new with each create or replace
//	rouse-fire-id, rouse-namespace, rouse-timer, rouse-due, rouse-attempt, rouse-token, rouse-generation
//	                  the same for receivers without CloudEvents
//	rouse-manual      true if a client requested the fire by run
//	rouse-last        true if no attempt follows
//	webhook-id, webhook-timestamp, webhook-signature
//	                  Standard Webhooks: fire id, time of the attempt, one signature for each of the namespace's keys
//	rouse-signature   the same keys' signatures over the rouse-… headers and the signature above (VerifyIdentity)
//
// As CloudEvents' HTTP binding requires, values are percent-encoded, and rouse-timer, too: space, '"', '%'
// and all but printable ASCII. In structured mode the body is the event as JSON
// (application/cloudevents+json), with the payload in data, or in data_base64 if it is not JSON, and with
// the extensions manual and last; the rouse-… and webhook-… headers do not change. In batch mode the body
// is an array of such events (application/cloudevents-batch+json), webhook-id is derived from the ids of
// the fires, and no other header describes single fires.
//
// # Answers
//
//	2xx                     done
//	202                     accepted: the receiver reports through the API, within the timer's webhook.accept
//	408, 425, 429, 5xx      failed; Retry-After is honoured up to MaxRetryAfter
//	no answer               failed
//	410                     gone: the timer ends
//	3xx                     rejected: redirects are not followed
//	other 4xx               rejected
//	a forbidden address     rejected
//
// A 2xx can request another attempt by a JSON body, {"rouse":{"retry_after":"30s"}} or
// {"rouse":{"retry_at":"<RFC 3339>"}}, also up to MaxRetryAfter; it spends an attempt like a failure. The
// 2xx of a batch can have a result for each fire:
//
//	{"rouse":{"results":[{"id":"<fire id>","status":503,"retry_after":"30s","detail":"busy"}, …]}}
//
// Each result is the answer to its fire: status as above, by default that of the response; retry_after,
// retry_at and detail are optional. A fire without a result has the status of the response. A JSON body
// with "rouse" that cannot be parsed fails the attempt, so that a request of the receiver is never mistaken
// for success.
//
// # Safety
//
// Addresses are checked when the connection is dialled, after DNS, on the address that the kernel will use,
// so neither names nor DNS rebinding reach forbidden addresses; proxies of the environment are not used. A
// connection gets no further request after MaxAge, or if anything follows an answer. A request over a
// connection that was used before, and that ends before the first byte of an answer, is sent once more.
// Bodies of responses are read up to MaxAnswer and for at most five seconds.
package webhook

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// Options configure a sink. Zero fields have the defaults that their comments name.
type Options struct {
	// AllowPrivate permits loopback, private and other special addresses. Link-local and metadata addresses
	// stay forbidden. Default: public addresses only.
	AllowPrivate bool

	// Signing returns the signer of a namespace's requests, with all of its keys, so that receivers can
	// rotate them; nil signs nothing. While it returns an error, fires are deferred. It is called for every
	// attempt. Default: no request is signed.
	Signing func(namespace string) (*Signing, error)

	// Secret returns the value of {{secret:NAME}} in the headers of a namespace's timers, to be sent to a
	// host. While it returns an error, which must not contain secrets, fires are deferred. It is called for
	// every attempt. Default: there are no secrets.
	Secret func(namespace, name, host string) (string, error)

	// Credential returns a secret of which something else is sent to a host, an access token or a signature;
	// nil for others, which Secret returns. Its errors are as those of Secret. Default: there are none.
	Credential func(namespace, name, host string) (*rouse.Credential, error)

	// Egress are rules for where requests may go: the first that applies decides. Without one, public
	// addresses are allowed.
	Egress []Rule

	// Proxy is an HTTP proxy (ParseProxy) that opens the connections, by CONNECT. It resolves names, so that
	// only rules for names, ports and literal addresses apply to targets, and private addresses behind names
	// are for the proxy to refuse. Default: none.
	Proxy *url.URL

	// DropHeaders are names of headers of timers that are not sent; a name that ends with '*' is all that
	// begin so.
	DropHeaders []string

	HostConcurrency int // requests at a time to one host, for each namespace; default 64
	// requests at a time to one IP address, whatever its names, for each namespace; default 1,024
	AddressRequests int
	BatchRequests   int           // requests at a time of one batch lane; default 8
	BatchBytes      int           // of one batch's body, unless a single event is larger; default 1 MiB
	MaxAnswer       int           // bytes of an answer's body that are read; default 64 KiB
	MaxIdle         int           // idle connections kept, of all hosts; default 1,024
	UserAgent       string        // default "rouse"
	DialTimeout     time.Duration // name resolution included; default 5 s
	TLSTimeout      time.Duration // of the handshake; default 5 s
	IdleTimeout     time.Duration // after which an idle connection is closed; default 30 s
	MaxAge          time.Duration // after which a connection gets no further request; default 1 min

	RootCAs  *x509.CertPool // trusted authorities; default the system's
	Resolver *net.Resolver  // default Go's own, which obeys timeouts
}

func (o Options) withDefaults() Options {
	for _, n := range []struct {
		p *int
		d int
	}{{&o.HostConcurrency, 64}, {&o.AddressRequests, 1024}, {&o.BatchRequests, 8}, {&o.BatchBytes, 1 << 20},
		{&o.MaxAnswer, 64 << 10}, {&o.MaxIdle, 1024}} {
		if *n.p <= 0 {
			*n.p = n.d
		}
	}
	for _, s := range []struct {
		p *time.Duration
		d time.Duration
	}{{&o.DialTimeout, 5 * time.Second}, {&o.TLSTimeout, 5 * time.Second}, {&o.IdleTimeout, 30 * time.Second},
		{&o.MaxAge, maxAge}} {
		if *s.p <= 0 {
			*s.p = s.d
		}
	}
	if o.Signing == nil {
		o.Signing = func(string) (*Signing, error) { return nil, nil }
	}
	if o.Secret == nil {
		o.Secret = func(_, name, _ string) (string, error) {
			return "", fmt.Errorf("there is no secret %s", rouse.Shorten(name, 64))
		}
	}
	if o.Credential == nil {
		o.Credential = func(string, string, string) (*rouse.Credential, error) { return nil, nil }
	}
	drop := make([]string, len(o.DropHeaders))
	for i, name := range o.DropHeaders {
		drop[i] = http.CanonicalHeaderKey(name)
	}
	o.DropHeaders = drop
	o.UserAgent = cmp.Or(o.UserAgent, "rouse")
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	return o
}

// Sink is a rouse.Sink for http and https targets.
type Sink struct {
	opts     Options
	idle     idle
	inflight inflight
	tokens   *tokens
	draining atomic.Bool // deliveries make no further request
}

// New returns a sink; Close ends it.
func New(o Options) *Sink {
	o = o.withDefaults()
	s := &Sink{opts: o, idle: idle{most: o.MaxIdle, perOrigin: o.HostConcurrency, timeout: o.IdleTimeout},
		inflight: inflight{most: o.AddressRequests}}
	s.tokens = newTokens(s.fetchToken)
	return s
}

// Drain makes deliveries of several requests end with the one that they are making, and defer the rest: a
// node that stops sends nothing new.
func (s *Sink) Drain() { s.draining.Store(true) }

// Close closes the connections. It is called after all deliveries ended.
func (s *Sink) Close() error {
	s.tokens.closeTokens()
	s.idle.closePool()
	return nil
}
