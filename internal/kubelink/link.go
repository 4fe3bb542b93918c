// Package kubelink connects to an API server of Kubernetes, with the credentials of a kubeconfig or of the
// pod.
//
// It has the few requests that the election of leaders and the driver of pools need. client-go would add 2 MB
// to the binary, and the types of the objects of Kubernetes 5 MB.
package kubelink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Link is a client of an API server. It is safe for concurrent use.
type Link struct {
	Namespace string // of the kubeconfig's context, or of the pod
	UserAgent string // "rouse" if it is not changed

	base   *url.URL
	client *http.Client
	user   *user
}

// Intervals that find a broken connection of HTTP/2, on which a watch would wait for events until it ends.
const (
	pingAfter   = 30 * time.Second // of silence
	pingTimeout = 15 * time.Second
)

func newLink(c *cluster, u *user, namespace string) (*Link, error) {
	base, err := url.Parse(c.Server)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("server: %q is no address such as https://host:6443", c.Server)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.HTTP2, t.DisableCompression = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		c.DisableCompression
	if t.TLSClientConfig, err = tlsConfig(c, u); err != nil {
		return nil, err
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("proxy-url: %w", err)
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	// A redirect is an error: it would carry the credentials elsewhere.
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &Link{Namespace: namespace, UserAgent: "rouse", base: base, client: client, user: u}, nil
}

// Close closes idle connections, and ends the program that makes credentials, if it runs.
func (l *Link) Close() {
	l.client.CloseIdleConnections()
	if l.user.Exec != nil {
		l.user.Exec.endPluginRun()
	}
}

// At returns the URL of a path of the API server.
func (l *Link) At(path ...string) string { return l.base.JoinPath(path...).String() }

// Collection returns the URL of the objects of a kind in a namespace, or in all of them if it is empty.
// apiVersion is group/version, or v1.
func (l *Link) Collection(apiVersion, namespace, plural string) string {
	in := "apis"
	if !strings.Contains(apiVersion, "/") {
		in = "api"
	}
	if namespace == "" {
		return l.At(in, apiVersion, plural)
	}
	return l.At(in, apiVersion, "namespaces", url.PathEscape(namespace), plural)
}

// StatusError is a response that reports an error.
type StatusError struct {
	Code    int
	Message string
	After   time.Duration // how long the API server asks to wait before the next request; 0: it does not
}

// RetryAfter returns how long to wait before the next request, at least.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// longestAfter bounds how long an API server may ask to wait.
const longestAfter = time.Minute

// retryAfter returns how long a response asks to wait before the next request, which API servers write as a
// number of seconds.
func retryAfter(res *http.Response) time.Duration {
	n, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, longestAfter)
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the API server answers %d %s: %s", e.Code, http.StatusText(e.Code),
		rouse.Shorten(e.Message, 1000))
	if e.Code == http.StatusForbidden {
		text += ": grant the client the rights that docs/pools.md lists for pools, and docs/operations.md for the election"
	}
	return text
}

// IsStatus reports whether an error is a response with a status code.
func IsStatus(err error, code int) bool {
	told, ok := errors.AsType[*StatusError](err)
	return ok && told.Code == code
}

// MaxAnswer bounds the size of a response, and maxError that of one that reports an error.
const (
	MaxAnswer = 64 << 20
	maxError  = 1 << 20
)

// Open makes a request, and returns a successful response. A body is sent as JSON.
func (l *Link) Open(ctx context.Context, method, at, contentType string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, reader)
	if err != nil {
		return nil, err
	}
	authorization, err := l.user.authorizationHeader(ctx)
	if err != nil {
		return nil, fmt.Errorf("credentials for Kubernetes: %w", err)
	}
	for name, value := range map[string]string{"Accept": "application/json", "User-Agent": l.UserAgent,
		"Content-Type": contentType, "Authorization": authorization} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := l.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s %s: %w", method, req.URL.Path, failed.Err) // without parameters, which are others each time
	}
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		l.user.dropCredential()
	}
	var told struct{ Message string }
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxError))
	if json.Unmarshal(text, &told) != nil || told.Message == "" {
		told.Message = strings.TrimSpace(string(text)) // not from the API server, but from a proxy in front of it
	}
	return nil, &StatusError{res.StatusCode, told.Message, retryAfter(res)}
}

// Do makes a request, and decodes the response.
func (l *Link) Do(ctx context.Context, method, at, contentType string, body, into any) error {
	res, err := l.Open(ctx, method, at, contentType, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(text) > MaxAnswer:
		return fmt.Errorf("the response of the API server is longer than %d bytes", MaxAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("invalid response of the API server: %w", err)
	}
	return nil
}
