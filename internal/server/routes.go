package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// endpoint serves one kind of request, or returns an error.
type endpoint func(f *httpHandler, c *call) error

// route is a method and a path, and their description in /openapi.yaml. Segments are names, or variables in
// braces; the last one may end with a verb.
type route struct {
	method, path string
	serve        endpoint
	rpc          string   // the method of rouse.v1 that does the same; empty: HTTP alone offers it
	params       []string // names of query parameters; others are refused
	repeats      repeats  // how it treats an Idempotency-Key
	foreign      bool     // another server has made the query: unknown parameters are ignored
	body         any      // of requests: a value of package api; nil is none
	// of status 200: a value of package api, or the name of a response of openapi.base.yaml; nil is no
	// content
	answer  any
	summary string
	means   string // the meaning of the answer
	more    string // other parts of the operation, in YAML: its description, media types, parameters that only it has
}

const (
	nsPath     = "/v1/namespaces/{namespace}"
	timersPath = nsPath + "/timers"
	timerPath  = timersPath + "/{name}"
	deadPath   = timerPath + "/dead/{fire_id}"
	firePath   = timerPath + "/fires/{fire_id}"
)

// rpcMethod returns the route's name in the table of access control.
func (r *route) rpcMethod() string {
	if r.rpc == "" {
		return r.method + " " + r.path
	}
	return "/rouse.v1." + r.rpc
}

// routes is the whole HTTP API.
var routes = slices.Concat(createRoutes, batchRoutes, timersRoutes, deadRoutes, editRoutes, recordsRoutes,
	historyRoutes, firesRoutes, planRoutes, bulkRoutes, jobsRoutes, calendarsRoutes, secretsRoutes, limitsRoutes, callsRoutes,
	adminRoutes, accessRoutes, badgeRoutes, sessionRoutes, loginRoutes, namespacesRoutes, statusRoutes, otherRoutes)

// table is the routes as a tree of segments. The standard mux cannot be used: it cleans paths, and a timer
// name may contain any printable character, such as "/" and ":" (escaped as %2F and %3A).
type table struct {
	names    map[string]*table
	variable *table
	verbs    map[string]map[string]*route // by verb and method; "" is no verb
}

func newTable(routes []route) *table {
	root := &table{}
	for i := range routes {
		r, at := &routes[i], root
		path, verb := r.path, ""
		if i := strings.LastIndexByte(path, ':'); i >= 0 {
			path, verb = path[:i], path[i+1:]
		}
		for _, segment := range strings.Split(path, "/")[1:] {
			at = at.ensureChild(segment)
		}
		if at.verbs == nil {
			at.verbs = map[string]map[string]*route{}
		}
		if at.verbs[verb] == nil {
			at.verbs[verb] = map[string]*route{}
		}
		at.verbs[verb][r.method] = r
	}
	return root
}

func (t *table) ensureChild(segment string) *table {
	if strings.HasPrefix(segment, "{") {
		if t.variable == nil {
			t.variable = &table{}
		}
		return t.variable
	}
	if t.names == nil {
		t.names = map[string]*table{}
	}
	if t.names[segment] == nil {
		t.names[segment] = &table{}
	}
	return t.names[segment]
}

// findRoute returns the route of a request, and the values of the path's variables. The verb follows the last
// ':' that is not escaped.
func (t *table) findRoute(method, escaped string) (*route, []string, error) {
	path, verb := escaped, ""
	if i := strings.LastIndexByte(path, ':'); i > strings.LastIndexByte(path, '/') {
		path, verb = path[:i], path[i+1:]
	}
	at := t
	var vars []string
	for _, segment := range strings.Split(path, "/")[1:] {
		if next := at.names[segment]; next != nil {
			at = next
			continue
		}
		if at.variable == nil || segment == "" {
			return nil, nil, noPath(escaped)
		}
		value, err := url.PathUnescape(segment)
		if err != nil {
			return nil, nil, refuseMalformed("path", segment, "is not escaped properly",
				"write a byte as % and two hexadecimal digits")
		}
		at, vars = at.variable, append(vars, value)
	}
	if at.verbs == nil {
		return nil, nil, noPath(escaped)
	}
	methods := at.verbs[verb]
	if methods == nil {
		return nil, nil, at.noVerb(verb)
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if r := methods[method]; r != nil {
		return r, vars, nil
	}
	return nil, nil, noMethod(method, methods)
}

func noPath(path string) error {
	return &failure{code: "no_such_path", detail: fmt.Sprintf("there is nothing at %q; /openapi.yaml lists all paths",
		printableText(path))}
}

func (t *table) noVerb(verb string) error {
	var offered []string
	for v := range t.verbs {
		if v != "" {
			offered = append(offered, ":"+v)
		}
	}
	slices.Sort(offered)
	detail := fmt.Sprintf("the verb %q is not offered here", printableText(":"+verb))
	if len(offered) > 0 {
		detail += "; these are: " + strings.Join(offered, ", ")
	}
	if verb == "" {
		detail = "a verb is missing; these are offered: " + strings.Join(offered, ", ")
	}
	return &failure{code: "no_such_path", detail: detail + ". A ':' within a name is written %3A"}
}

func noMethod(method string, methods map[string]*route) error {
	var allowed []string
	for m := range methods {
		if allowed = append(allowed, m); m == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	list := strings.Join(allowed, ", ")
	return &failure{code: "method_not_allowed", detail: fmt.Sprintf("%s is not offered here; these are: %s",
		printableText(method), list),
		header: http.Header{"Allow": {list}}}
}
