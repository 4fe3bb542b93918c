package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// cluster is a fake of the parts of Kubernetes that the driver uses: an API server with objects, versions and
// an event history, and controllers that create pods for workloads and delete those of deleted workloads
// (controllers_test.go). It tests how the driver uses the protocol; real_linux_test.go tests with a real
// Kubernetes.
type cluster struct {
	url string

	mu      sync.Mutex
	version int
	objects map[string]entry // by path
	history []event          // since oldest
	oldest  int              // earlier events were dropped
	moved   chan struct{}    // closed and replaced at each event
	end     chan struct{}    // closed to end watches, and replaced
	refuse  func(r *http.Request) (status int, message string)
	calls   map[string]int // by method
	idle    bool           // controllers do nothing
}

// obj is an object of Kubernetes.
type obj = map[string]any

type entry struct {
	body    obj
	applied obj // what was applied last
	uid     string
}

type event struct {
	version int
	what    string
	path    string
	body    obj
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{objects: map[string]entry{}, moved: make(chan struct{}), end: make(chan struct{}), calls: map[string]int{}}
	s := httptest.NewServer(c)
	t.Cleanup(func() { c.cut(); s.CloseClientConnections(); s.Close() })
	c.url = s.URL
	return c
}

// cut ends all watches.
func (c *cluster) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.end)
	c.end = make(chan struct{})
}

// compact drops the event history and ends all watches.
func (c *cluster) compact() {
	c.mu.Lock()
	c.version++
	c.history, c.oldest = nil, c.version
	c.mu.Unlock()
	c.cut()
}

// refusing sets a function that refuses requests; nil ends that.
func (c *cluster) refusing(f func(r *http.Request) (int, string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = f
}

// rest pauses and resumes the controllers.
func (c *cluster) rest(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = idle
	c.control()
}

func (c *cluster) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	isCollection := strings.Count(path, "/") == 6 && strings.HasPrefix(path, "/apis/") || strings.Count(path, "/") == 5 && strings.HasPrefix(path, "/api/")
	what := strings.ToLower(r.Method)
	switch {
	case r.URL.Query().Get("watch") != "":
		what = "watch"
	case isCollection && what == "get":
		what = "list"
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.calls[what]++
	refuse := c.refuse
	c.mu.Unlock()
	if refuse != nil {
		if status, message := refuse(r); status != 0 {
			fail(w, status, message)
			return
		}
	}
	var body obj
	if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if what == "watch" {
		c.watch(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	status, answer := http.StatusOK, any(nil)
	switch what {
	case "list":
		status, answer = c.list(r)
	case "get":
		status, answer = c.get(path)
	case "patch":
		status, answer = c.patch(r, path, body)
	case "post":
		status, answer = c.bind(path, body)
	case "delete":
		status, answer = c.delete(path, body)
	default:
		status, answer = http.StatusMethodNotAllowed, "no such method"
	}
	if text, ok := answer.(string); ok {
		fail(w, status, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(obj{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status})
}

// at returns the value at a path of fields.
func at(o obj, path ...string) any {
	var v any = o
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func meta(o obj) obj { m, _ := o["metadata"].(map[string]any); return m }

func clone(o obj) obj {
	text, err := json.Marshal(o)
	var copied obj
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	if err != nil {
		panic(err)
	}
	return copied
}

// write stores a new state of an object and notifies watches.
func (c *cluster) write(path string, e entry) obj {
	_, there := c.objects[path]
	c.version++
	meta(e.body)["resourceVersion"] = strconv.Itoa(c.version)
	if there && meta(e.body)["deletionTimestamp"] != nil && len(finalizers(e.body)) == 0 && at(e.body, "spec", "nodeName") == nil {
		c.remove(path)
		return e.body
	}
	c.objects[path] = e
	c.tell(map[bool]string{true: "MODIFIED", false: "ADDED"}[there], path, e.body)
	return e.body
}

func (c *cluster) remove(path string) {
	c.version++
	body := clone(c.objects[path].body)
	meta(body)["resourceVersion"] = strconv.Itoa(c.version)
	delete(c.objects, path)
	c.tell("DELETED", path, body)
}

func (c *cluster) tell(what, path string, body obj) {
	c.history = append(c.history, event{c.version, what, path, clone(body)})
	close(c.moved)
	c.moved = make(chan struct{})
}

func finalizers(o obj) []any { f, _ := meta(o)["finalizers"].([]any); return f }

func (c *cluster) get(path string) (int, any) {
	e, ok := c.objects[path]
	if !ok {
		return http.StatusNotFound, path + " is not there"
	}
	return http.StatusOK, e.body
}

// selects reports whether a selector, a list of equations, matches an object.
func selects(selector string, o obj) bool {
	for term := range strings.SplitSeq(selector, ",") {
		name, value, _ := strings.Cut(term, "=")
		if term != "" && at(o, "metadata", "labels", name) != value {
			return false
		}
	}
	return true
}

// list serves a page. All pages of a list have the version of the first, as long as the history contains it.
func (c *cluster) list(r *http.Request) (int, any) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	after, version := "", c.version
	if token := query.Get("continue"); token != "" {
		text, err := base64.URLEncoding.DecodeString(token)
		if _, err2 := fmt.Sscanf(string(text), "%d %s", &version, &after); err != nil || err2 != nil {
			return http.StatusBadRequest, "continue token not valid"
		}
		if version < c.oldest {
			return http.StatusGone, "The provided continue parameter is too old"
		}
	}
	items := []obj{}
	next := ""
	for _, path := range slices.Sorted(maps.Keys(c.objects)) {
		o := c.objects[path].body
		if !strings.HasPrefix(path, r.URL.Path+"/") || path <= after || !selects(query.Get("labelSelector"), o) {
			continue
		}
		if limit > 0 && len(items) == limit {
			next = base64.URLEncoding.EncodeToString([]byte(fmt.Sprintf("%d %s", version, r.URL.Path+"/"+meta(items[limit-1])["name"].(string))))
			break
		}
		items = append(items, o)
	}
	return http.StatusOK, obj{"kind": "List", "metadata": obj{"resourceVersion": strconv.Itoa(version), "continue": next}, "items": items}
}

func (c *cluster) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	version, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		fail(w, http.StatusBadRequest, "no version")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	flusher := w.(http.Flusher)
	flusher.Flush()
	send := func(what string, body obj) bool {
		return json.NewEncoder(w).Encode(obj{"type": what, "object": body}) == nil
	}
	for {
		c.mu.Lock()
		moved, end, now, oldest := c.moved, c.end, c.version, c.oldest
		var list []event
		for _, e := range c.history {
			if e.version > version && strings.HasPrefix(e.path, r.URL.Path+"/") && selects(query.Get("labelSelector"), e.body) {
				list = append(list, e)
			}
		}
		c.mu.Unlock()
		if version < oldest {
			send("ERROR", obj{"kind": "Status", "code": http.StatusGone, "message": "too old resource version"})
			return
		}
		for _, e := range list {
			if !send(e.what, e.body) {
				return
			}
		}
		if version = now; !send("BOOKMARK", obj{"metadata": obj{"resourceVersion": strconv.Itoa(now)}}) {
			return
		}
		flusher.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-end:
			return
		case <-moved:
		}
	}
}

func asObj(v any) obj { o, _ := v.(map[string]any); return o }
