package server

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/rousehq/rouse/api"
)

// newAdmin serves operators: status page, metrics, health, and profiles. It has no authentication and is
// for trusted networks only.
func newAdmin(core *service) http.Handler {
	o := core.opts
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", core.page)
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	if o.Pools != nil {
		mux.Handle("/pools", o.Pools)
		mux.Handle("/pools/", o.Pools)
	}
	mux.HandleFunc("GET /livez", probe(o.Live))
	mux.HandleFunc("GET /readyz", probe(o.Ready))
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		body, err := api.Encode(version(o))
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
	return mux
}

// probe answers 200, or 503 with the reason.
func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, err.Error()+"\n")
			return
		}
		io.WriteString(w, "ok\n")
	}
}
