package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/transport"
)

// Guard passes a request to h unless a web page of another site made the browser send it, with any method.
// Browsers report such requests in Sec-Fetch-Site and Origin. After DNS rebinding a hostile page counts as
// same-site, but its Host header differs: on a loopback listener the host has to be localhost, a loopback
// address, or one of hosts; on other listeners it is checked only if hosts is not empty.
//
// Every HTTP listener uses it: the API, the operators' port, the pool manager, and the port of Dapr's
// metrics.
func Guard(h http.Handler, listener net.Addr, hosts []string) http.Handler {
	local := listen.OnLoopback(listener.String())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := refuseBrowser(r, local, hosts); err != nil {
			refuseRequest(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// strictTransport has browsers use TLS for a host for a year, also for links with http.
const strictTransport = "max-age=31536000"

// insistOnTLS passes requests to h, and if the listeners have TLS, has browsers use it for this host from now
// on. Not for this machine: there the rule would be for each port, of other programs, too.
func (s *Server) insistOnTLS(h http.Handler) http.Handler {
	if s.opts.TLS == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !listen.Loopback(hostOf(r.Host)) {
			w.Header().Set("Strict-Transport-Security", strictTransport)
		}
		h.ServeHTTP(w, r)
	})
}

func refuseBrowser(r *http.Request, local bool, hosts []string) error {
	if r.Host != "" && (local || len(hosts) > 0) && !isServedHost(r.Host, local, hosts) {
		return &failure{code: "wrong_host", detail: "the host " + printableText(r.Host) +
			" is not served here; use localhost or an address, or name it in the setting hosts"}
	}
	if crossSite(r) && !isIssuerReturn(r) {
		return &failure{code: "forbidden", detail: "requests that a web page of another origin makes are refused"}
	}
	return nil
}

// isServedHost reports whether a Host header names this server.
func isServedHost(host string, local bool, hosts []string) bool {
	name := strings.TrimSuffix(strings.ToLower(hostOf(host)), ".")
	if local && listen.Loopback(name) {
		return true
	}
	return slices.ContainsFunc(hosts, func(h string) bool {
		return strings.EqualFold(h, name) ||
			strings.EqualFold(h, host)
	})
}

// hostOf strips the port of a host, if it has one.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// isIssuerReturn reports whether an issuer sends a browser back, as a whole page. No other request of another
// site is taken; such a request needs a cookie of a login that began here.
func isIssuerReturn(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == access.CallbackPath || r.URL.Path == access.SignedOutPath) &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // not a browser, or an old one
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// refuseRequest writes a problem as the response.
func refuseRequest(w http.ResponseWriter, err error) {
	p, _ := problemOf(err)
	body, _ := api.Encode(&p) // there is nothing but text in it
	w.Header().Set("Content-Type", api.ProblemType)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", authenticate)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// refuseAmbiguous refuses a request whose body length is ambiguous. A chunked request always closes the
// connection: if a proxy read it differently, the bytes after it must not be taken for a request.
func refuseAmbiguous(w http.ResponseWriter, r *http.Request) error {
	if len(r.TransferEncoding) == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	if c := transport.ConnOf(r.Context()); c != nil && c.IsAmbiguous() {
		return refuseMalformed("Content-Length", "", "comes with Transfer-Encoding", "send one of them")
	}
	return nil
}
