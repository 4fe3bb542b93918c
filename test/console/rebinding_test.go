package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// attempts is what a page tries at a base: to read and to write, in each way that browsers offer. It returns
// one line for each attempt: its status, or that the page learned nothing.
const attempts = `(async base => {
	const out = []
	const attempt = async (what, path, init) => {
		try {
			const r = await fetch(base + path, init)
			out.push(what + " " + (r.type === "opaque" ? "opaque" : r.status) + " " + (await r.text()).slice(0, 200))
		} catch (e) { out.push(what + " error") }
	}
	const timer = JSON.stringify({name: "made-by-a-page", schedule: "@every 1h", target: "stream:x"})
	const timers = "/v1/namespaces/default/timers"
	for (const mode of ["cors", "no-cors"]) {
		await attempt("read", timers, {mode, credentials: "include"})
		await attempt("read", "/v1/backup", {mode})
		await attempt("read", "/openapi.yaml", {mode})
		await attempt("create", timers, {mode, method: "POST", body: timer, headers: {"Content-Type": "text/plain"}})
		await attempt("create", timers, {mode, method: "POST", body: new Blob([timer], {type: ""})})
		await attempt("pause", timers + "/secret:pause", {mode, method: "POST"})
	}
	await attempt("create", timers, {method: "POST", body: timer, headers: {"Content-Type": "application/json"}})
	await attempt("delete", timers + "/secret", {method: "DELETE"})
	await attempt("replace", timers + "/secret", {method: "PUT", body: timer, headers: {"Content-Type": "application/json"}})
	navigator.sendBeacon(base + timers, new Blob([timer], {type: "text/plain"}))
	await new Promise(done => {
		const frame = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("input")
		frame.name = "f"; frame.onload = done
		form.method = "POST"; form.enctype = "text/plain"; form.action = base + timers; form.target = "f"
		field.name = timer.slice(0, -1) + ',"labels":{"x":"'; field.value = '"}}'
		form.append(field); document.body.append(frame, form); form.submit()
		setTimeout(done, 2000)
	})
	return out.join("\n")
})`

// TestPagesOfOthersReachNothing: in a real browser, a page of another site cannot read or write a server on
// loopback, neither by its address, nor by a name of the page's own that leads to the server after rebinding.
func TestPagesOfOthersReachNothing(t *testing.T) {
	w := newEmpty(t)
	w.Create("secret", rouse.Spec{Schedule: "@every 1h", Target: w.Receiver.URL()})
	before, err := w.Client.Get(t.Context(), rousetest.Namespace, "secret")
	if err != nil {
		t.Fatal(err)
	}
	to, _ := url.Parse("http://" + w.Address)
	rouseAt := httputil.NewSingleHostReverseProxy(to) // which leaves the Host header as the browser sent it
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/evil" { // before the name is bound to the server
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, "<!doctype html><h1>free coffee</h1>")
			return
		}
		rouseAt.ServeHTTP(rw, r)
	}))
	t.Cleanup(evil.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(evil.URL, "http://"), ":")
	b, stop := startBrowser(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	t.Cleanup(stop)
	for what, base := range map[string]string{"its own name, rebound": "", "the address of the server": "http://" + w.Address, "localhost": "http://localhost:" + to.Port()} {
		p := b.tab(t, "http://evil.example:"+port, looks[0])
		p.do(chromedp.Navigate(p.base + "/evil"))
		p.until(`!!document.querySelector("h1")`)
		got := eval[string](p, fmt.Sprintf("%s(%q)", attempts, base))
		lines := strings.Split(got, "\n")
		for _, line := range lines {
			if word := strings.Fields(line); word[1] != "error" && word[1] != "opaque" && word[1] != "421" && word[1] != "403" || strings.Contains(line, "stream:") || strings.Contains(line, "openapi:") {
				t.Errorf("by %s: %s", what, line)
			}
		}
		if len(lines) < 15 {
			t.Errorf("by %s: only %q", what, lines)
		}
	}
	after, err := w.Client.Get(t.Context(), rousetest.Namespace, "secret")
	if err != nil || after.Revision != before.Revision || after.Paused {
		t.Errorf("a page has changed a timer: %+v, %v", after, err)
	}
	if _, err := w.Client.Get(t.Context(), rousetest.Namespace, "made-by-a-page"); err == nil {
		t.Error("a page has created a timer")
	}
	// The attempts are real ones: a page of the server itself succeeds.
	p := b.tab(t, "http://"+w.Address, looks[0])
	p.do(chromedp.Navigate(p.base + "/"))
	if got := eval[string](p, attempts+`("")`); !strings.Contains(got, "read 200") || !strings.Contains(got, "create 201") || !strings.Contains(got, "delete 200") {
		t.Errorf("a page of the server itself: %s", got)
	}
}
