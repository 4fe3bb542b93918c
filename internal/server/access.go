package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/rousehq/rouse/api"
)

// Guard lets requests through to h that a browser was not made to send. A web page of another site is refused, whatever the method:
// browsers report it in Sec-Fetch-Site and Origin. A page whose own name was made to lead here (DNS rebinding) is of the same site to
// the browser, and shows by the Host header: on a listener on loopback that is localhost, an address of loopback, or one of hosts. On
// another listener the Host counts if there are hosts.
//
// All that serves HTTP is behind it: the API, the operators' port, the manager of pools, the port of Dapr's metrics.
func Guard(h http.Handler, listener net.Addr, hosts []string) http.Handler {
	local := OnLoopback(listener.String())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := refuseBrowser(r, local, hosts); err != nil {
			refuseRequest(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func refuseBrowser(r *http.Request, local bool, hosts []string) error {
	if r.Host != "" && (local || len(hosts) > 0) && !served(r.Host, local, hosts) {
		return &failure{code: "wrong_host", detail: "the host " + shown(r.Host) + " is not served here; use localhost or an address, or name it in the setting hosts"}
	}
	if crossSite(r) {
		return &failure{code: "forbidden", detail: "requests that a web page of another origin makes are refused"}
	}
	return nil
}

// served returns whether a Host header names this server.
func served(host string, local bool, hosts []string) bool {
	name := strings.TrimSuffix(strings.ToLower(hostOf(host)), ".")
	if local && (name == "localhost" || loopbackAddr(name)) {
		return true
	}
	return slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

// hostOf returns a host without its port, if it has one.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func loopbackAddr(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Unmap().IsLoopback()
}

// OnLoopback returns whether only this machine reaches an address of the form HOST:PORT.
func OnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (strings.EqualFold(host, "localhost") || loopbackAddr(host))
}

// CheckListener is the one rule for addresses to listen on, of the setting with the given name: one that other machines reach is served
// to anybody who reaches it, so it has to be allowed by insecure. example is an address that would do.
func CheckListener(setting, address, example string, insecure bool) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s %q is no address: give HOST:PORT, such as %s", setting, address, example)
	}
	if !insecure && !OnLoopback(address) {
		return fmt.Errorf("%s %q can be reached from other machines, and anybody who reaches it may use it: listen on 127.0.0.1, or allow it with insecure", setting, address)
	}
	return nil
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

// refuseRequest answers with a problem.
func refuseRequest(w http.ResponseWriter, err error) {
	p, _ := problemOf(err)
	body, _ := api.Encode(&p) // there is nothing but text in it
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// head reads along with the heads of the requests of an HTTP/1 connection: package net/http leaves out a Content-Length next to a
// Transfer-Encoding, and a proxy in front may have used the one and this server the other.
type head struct {
	mu   sync.Mutex
	over bool // the head of the current request has been read
	buf  []byte
	both bool // it had both
}

// expect begins a head; skip reads no more of them.
func (h *head) expect() { h.set(false) }
func (h *head) skip()   { h.set(true) }

func (h *head) set(over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.both, h.buf = over, false, h.buf[:0]
}

func (h *head) read(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(b) == 0 {
		return
	}
	h.buf = append(h.buf, b[:min(len(b), 2*maxHeaderBytes-len(h.buf))]...)
	end := bytes.Index(h.buf, []byte("\n\r\n"))
	if bare := bytes.Index(h.buf, []byte("\n\n")); bare >= 0 && (end < 0 || bare < end) {
		end = bare
	}
	if end < 0 && len(h.buf) < 2*maxHeaderBytes { // beyond that it is refused for its size
		return
	}
	length, encoding := false, false
	for line := range bytes.Lines(h.buf[:max(0, end)]) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch strings.ToLower(string(bytes.TrimSpace(name))) {
		case "content-length":
			length = true
		case "transfer-encoding":
			encoding = true
		}
	}
	h.over, h.both, h.buf = true, length && encoding, h.buf[:0]
}

func (h *head) ambiguous() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.both
}

// refuseAmbiguous returns why the length of a request's body is not clear. The connection ends with a request of chunks: where such a
// request was read differently on its way, nothing that follows it is taken for a request.
func refuseAmbiguous(w http.ResponseWriter, r *http.Request) error {
	if len(r.TransferEncoding) == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	if c := connOf(r.Context()); c != nil && c.head.ambiguous() {
		return malformed("Content-Length", "", "comes with Transfer-Encoding", "send one of them")
	}
	return nil
}
