package server

import (
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"

	"github.com/rousehq/rouse/api"
)

// newAdmin serves operators: metrics, health, and profiles. Without access control it is for trusted networks
// only. Requests for the API get an error that names its address; its listener may be nil.
func newAdmin(core *service, apiListener net.Listener) http.Handler {
	o := core.opts
	mux := admitted{http.NewServeMux(), o}
	mux.HandleFunc("GET /{$}", redirectToConsole(o, apiListener))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	if o.Pools != nil {
		for _, path := range []string{"/pools", "/pools/"} {
			mux.Handle("GET "+path, o.Pools)
			mux.Handle(path, o.Pools)
		}
	}
	mux.HandleFunc("GET /livez", newProbeHandler(o.Live, nil))
	mux.HandleFunc("GET /readyz", newProbeHandler(o.Ready, o.Degraded))
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		body, err := api.Encode(versionInfo(o))
		if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", jsonType)
		w.Write(append(body, '\n'))
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.ServeMux.HandleFunc("/v1/", func(w http.ResponseWriter, _ *http.Request) {
		refuseRequest(w, &failure{code: "no_such_path", detail: wrongPort(apiListener)().Error()})
	})
	return mux.ServeMux
}

// redirectToConsole leads people to the console: the host of their request, at the port of the API.
func redirectToConsole(o *Options, apiListener net.Listener) http.HandlerFunc {
	if o.Console == nil || apiListener == nil {
		return http.NotFound
	}
	_, port, err := net.SplitHostPort(apiListener.Addr().String())
	if err != nil {
		return http.NotFound
	}
	return func(w http.ResponseWriter, r *http.Request) {
		to := url.URL{Host: net.JoinHostPort(hostOf(r.Host), port), Path: "/"}
		http.Redirect(w, r, to.String(), http.StatusTemporaryRedirect)
	}
}

// admitted is a mux whose handlers serve admitted callers. Its methods take patterns as http.ServeMux does;
// the table of access control has them as "admin PATTERN".
type admitted struct {
	*http.ServeMux
	opts *Options
}

func (m admitted) Handle(pattern string, h http.Handler) {
	m.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		leave, call, err := authenticateRequest(m.opts, "admin", "admin "+pattern, &r)
		defer leave()
		call.About("", r.URL.Path)
		// its outcome is not known here: the event is that it was admitted
		if err = call.End(r.Context(), err, codesOf); err != nil {
			refuseRequest(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (m admitted) HandleFunc(pattern string, h http.HandlerFunc) { m.Handle(pattern, h) }

// newProbeHandler answers 200, with parts that are missing nevertheless, or 503 with the reason.
func newProbeHandler(check, missing func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, err.Error()+"\n")
			return
		}
		io.WriteString(w, "ok\n")
		if missing == nil {
			return
		}
		if err := missing(); err != nil {
			io.WriteString(w, err.Error()+"\n")
		}
	}
}
