package kubelink

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
)

// Follower receives the objects of a collection, decoded as T, and their changes, in order and one call at a
// time.
type Follower[T any] interface {
	// Listed receives all objects, at the version of the list.
	Listed(objects []*T, version string)
	// Took receives an event: ADDED, MODIFIED or DELETED.
	Took(event string, o *T)
	// Watching is called when events are received from now on.
	Watching()
	// Failed is called when a list or a watch fails. It is retried.
	Failed(err error)
}

// Versioned is an object that has its version: metadata.resourceVersion.
type Versioned[T any] interface {
	*T
	Version() string
}

// CallTimeout bounds a request that is no watch, and the start of the response to a watch.
const CallTimeout = 10 * time.Second

// The shortest and longest backoff after a failure.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// longestWatch is the duration of one watch request; the API server ends it at about that time.
const longestWatch = 5 * time.Minute

// PageSize is the number of objects per page of a list.
const PageSize = 500

// errExpired means that the API server has no event history since a version, so that a new list is needed.
var errExpired = errors.New("the version is too old")

// Follow lists the objects of a collection that a selector of labels selects, and watches them, until ctx
// ends.
func Follow[T any, P Versioned[T]](ctx context.Context, l *Link, at, selector string, to Follower[T]) {
	f := following[T, P]{l, at, selector, to}
	version, b := "", backoff.New(firstPause, lastPause)
	for ctx.Err() == nil {
		began := time.Now()
		var err error
		if version == "" {
			version, err = f.listPages(ctx)
		}
		if err == nil {
			version, err = f.watchFrom(ctx, version)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errExpired):
			version = ""
		case err != nil:
			to.Failed(err)
		}
		if err == nil && time.Since(began) > time.Second {
			b.Reset()
			continue
		}
		if told, ok := errors.AsType[*StatusError](err); ok && told.After > 0 {
			backoff.Sleep(ctx, told.After)
		}
		b.Pause(ctx)
	}
}

type following[T any, P Versioned[T]] struct {
	link         *Link
	at, selector string
	to           Follower[T]
}

// listPages receives all objects, page by page.
func (f *following[T, P]) listPages(ctx context.Context) (version string, err error) {
	var all []*T
	for next := ""; ; {
		var page []*T
		page, version, next, err = f.fetchPage(ctx, next)
		if IsStatus(err, http.StatusGone) {
			return "", errExpired
		}
		if err != nil {
			return "", err
		}
		if all = append(all, page...); next == "" {
			break
		}
	}
	f.to.Listed(all, version)
	return version, nil
}

// fetchPage returns a page of objects, the version of the list, and the token of the next page.
func (f *following[T, P]) fetchPage(ctx context.Context, after string) (page []*T, version, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	query := url.Values{"labelSelector": {f.selector}, "limit": {strconv.Itoa(PageSize)}}
	if after != "" {
		query.Set("continue", after)
	}
	var list struct {
		Metadata struct{ ResourceVersion, Continue string }
		Items    []*T
	}
	if err := f.link.Do(ctx, http.MethodGet, f.at+"?"+query.Encode(), "", nil, &list); err != nil {
		return nil, "", "", err
	}
	return list.Items, list.Metadata.ResourceVersion, list.Metadata.Continue, nil
}

// watchFrom handles events after a version, and returns the last version it has received. It returns no error
// if the API server ends the watch.
func (f *following[T, P]) watchFrom(ctx context.Context, version string) (string, error) {
	lasts := longestWatch - rand.N(longestWatch/4)
	ctx, cancel := context.WithTimeout(ctx, lasts+CallTimeout)
	defer cancel()
	impatient := time.AfterFunc(CallTimeout, cancel) // timeout of the start of the response
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "labelSelector": {f.selector},
		"resourceVersion": {version},
		"timeoutSeconds":  {strconv.Itoa(int(lasts / time.Second))}}
	res, err := f.link.Open(ctx, http.MethodGet, f.at+"?"+query.Encode(), "", nil)
	if !impatient.Stop() && err == nil {
		err = context.DeadlineExceeded
		_ = res.Body.Close()
	}
	if IsStatus(err, http.StatusGone) {
		return "", errExpired
	}
	if err != nil {
		return version, err
	}
	defer res.Body.Close()
	f.to.Watching()
	limited := &io.LimitedReader{R: bufio.NewReader(res.Body)}
	for decoder := json.NewDecoder(limited); ; {
		limited.N = MaxAnswer
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				err = nil // the watch has reached its duration
			}
			return version, err
		}
		next, err := f.handleWatchEvent(event.Type, event.Object)
		if err != nil {
			return version, err
		}
		version = next
	}
}

// handleWatchEvent handles an event of a watch, and returns its version.
func (f *following[T, P]) handleWatchEvent(event string, text []byte) (version string, err error) {
	if event == "ERROR" {
		var status struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return "", err
		}
		if status.Code == http.StatusGone {
			return "", errExpired
		}
		return "", &StatusError{Code: status.Code, Message: status.Message}
	}
	o := P(new(T))
	if err := json.Unmarshal(text, o); err != nil {
		return "", fmt.Errorf("an event of the API server is none: %w", err)
	}
	if event == "ADDED" || event == "MODIFIED" || event == "DELETED" { // not BOOKMARK, which has a version only
		f.to.Took(event, o)
	}
	return o.Version(), nil
}
