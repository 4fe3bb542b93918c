package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/kubelink"
)

// cache contains the objects of a kind in a namespace, updated by a watch. The writes of this process are
// added immediately: see put and drop.
type cache struct {
	api      *api
	name     string // of the kind, for messages
	at       string // URL of the objects
	selector string
	tell     func() // called when something may have changed
	log      *slog.Logger

	mu      sync.Mutex
	objects map[string]*object // by uid; never modified
	dropped map[string]bool    // uids of deleted objects, which a delayed watch may still report
	synced  bool               // there was a list
	err     error              // why the cache may be outdated; nil while a watch is running
	moved   chan struct{}      // closed and replaced when synced or err changes
}

func newCache(a *api, r resource, namespace, selector string, tell func(), log *slog.Logger) *cache {
	return &cache{api: a, name: r.plural, at: a.collection(r, namespace), selector: selector, tell: tell, log: log, objects: map[string]*object{}, dropped: map[string]bool{},
		moved: make(chan struct{})}
}

// The shortest and longest backoff after a failure.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// errExpired means that the API server has no event history since a version, so that a new list is needed.
var errExpired = errors.New("the version is too old")

// run lists and watches until ctx ends.
func (c *cache) run(ctx context.Context) {
	version, b := "", backoff.New(firstPause, lastPause)
	for ctx.Err() == nil {
		began := time.Now()
		var err error
		if version == "" {
			version, err = c.list(ctx)
		}
		if err == nil {
			version, err = c.watch(ctx, version)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errExpired):
			version = ""
		case err != nil:
			c.failed(err)
		}
		if err == nil && time.Since(began) > time.Second {
			b.Reset()
			continue
		}
		b.Pause(ctx)
	}
}

func (c *cache) failed(err error) {
	c.mu.Lock()
	again := c.err != nil && c.err.Error() == err.Error()
	c.set(c.synced, err)
	c.mu.Unlock()
	if !again {
		c.log.Warn("watching Kubernetes failed and is retried", "resource", c.name, "error", err)
	}
}

// set changes the state that callers of wait look at.
func (c *cache) set(synced bool, err error) {
	if synced == c.synced && err == c.err {
		return
	}
	c.synced, c.err = synced, err
	close(c.moved)
	c.moved = make(chan struct{})
}

// wait returns when the cache is up to date, or the reason why it is not.
func (c *cache) wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		synced, err, moved := c.synced, c.err, c.moved
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case synced:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server has not answered yet: %w", ctx.Err())
		case <-moved:
		}
	}
}

// follows reports whether the cache is up to date.
func (c *cache) follows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced && c.err == nil
}

// list replaces the content of the cache by a list.
func (c *cache) list(ctx context.Context) (version string, err error) {
	listed := map[string]*object{}
	for next := ""; ; {
		var page []*object
		page, version, next, err = c.api.list(ctx, c.at, c.selector, next)
		if kubelink.IsStatus(err, http.StatusGone) {
			return "", errExpired
		}
		if err != nil {
			return "", err
		}
		for _, o := range page {
			listed[o.Metadata.UID] = o
		}
		if next == "" {
			break
		}
	}
	c.mu.Lock()
	var at object
	at.Metadata.ResourceVersion = version
	for uid, o := range c.objects { // written by this process after the list was made
		if at.olderThan(o) && (listed[uid] == nil || listed[uid].olderThan(o)) {
			listed[uid] = o
		}
	}
	for uid := range c.dropped {
		if listed[uid] == nil {
			delete(c.dropped, uid)
		}
		delete(listed, uid)
	}
	c.objects = listed
	c.set(true, nil)
	c.mu.Unlock()
	c.tell()
	return version, nil
}

// longestWatch is the duration of one watch request; the API server ends it at about that time.
const longestWatch = 5 * time.Minute

// watch handles events after a version, and returns the last version it has received. It returns no error if
// the API server ends the watch.
func (c *cache) watch(ctx context.Context, version string) (string, error) {
	lasts := longestWatch - rand.N(longestWatch/4)
	ctx, cancel := context.WithTimeout(ctx, lasts+callTimeout)
	defer cancel()
	impatient := time.AfterFunc(callTimeout, cancel) // timeout of the start of the response
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "labelSelector": {c.selector}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(lasts / time.Second))}}
	res, err := c.api.Open(ctx, http.MethodGet, c.at+"?"+query.Encode(), "", nil)
	if !impatient.Stop() && err == nil {
		err = context.DeadlineExceeded
		_ = res.Body.Close()
	}
	if kubelink.IsStatus(err, http.StatusGone) {
		return "", errExpired
	}
	if err != nil {
		return version, err
	}
	defer res.Body.Close()
	c.mu.Lock()
	c.set(true, nil)
	c.mu.Unlock()
	limited := &io.LimitedReader{R: bufio.NewReader(res.Body)}
	for decoder := json.NewDecoder(limited); ; {
		limited.N = kubelink.MaxAnswer
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
		next, err := c.take(event.Type, event.Object)
		if err != nil {
			return version, err
		}
		version = next
	}
}

// take handles an event of a watch, and returns its version.
func (c *cache) take(what string, text []byte) (version string, err error) {
	if what == "ERROR" {
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
		return "", &kubelink.StatusError{Code: status.Code, Message: status.Message}
	}
	o := &object{}
	if err := json.Unmarshal(text, o); err != nil {
		return "", fmt.Errorf("an event of the API server is none: %w", err)
	}
	switch what {
	case "ADDED", "MODIFIED":
		c.put(o)
	case "DELETED":
		c.mu.Lock()
		delete(c.objects, o.Metadata.UID)
		delete(c.dropped, o.Metadata.UID)
		c.mu.Unlock()
		c.tell()
	}
	return o.Metadata.ResourceVersion, nil
}

// put stores a state of an object, unless a later one is known.
func (c *cache) put(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := o.Metadata.UID
	if was := c.objects[uid]; c.dropped[uid] || was != nil && o.olderThan(was) {
		return
	}
	c.objects[uid] = o
	c.tell()
}

// drop removes an object that this process has deleted. Late events do not restore it.
func (c *cache) drop(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[uid] != nil { // otherwise the watch has already reported its end
		c.dropped[uid] = true
		delete(c.objects, uid)
	}
	c.tell()
}

// evict removes an object that has probably been replaced.
func (c *cache) evict(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, uid)
	c.tell()
}

// all returns the objects in no particular order.
func (c *cache) all() []*object {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*object, 0, len(c.objects))
	for _, o := range c.objects {
		list = append(list, o)
	}
	return list
}

// named returns the object with a name, nil if there is none.
func (c *cache) named(name string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if o.Metadata.Name == name {
			return o
		}
	}
	return nil
}
