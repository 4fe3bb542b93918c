package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

func adminOf(o Options) http.Handler {
	o = o.withDefaults()
	return newAdmin(newService(&o, context.Background()), wrongPort(nil))
}

func pageOf(t *testing.T, h http.Handler) (*httptest.ResponseRecorder, string) {
	t.Helper()
	r := do(h, "GET", "/", "")
	want(t, r, 200)
	return r, r.Body.String()
}

func TestThePageShowsTimersNodesAndTheTablesOfOthers(t *testing.T) {
	load := func(context.Context) (Table, error) {
		return Table{Title: "Load", Note: "of parts", Head: []string{"part", "factor"}, Rows: []Row{{Cells: []string{"<b>a</b>", "0.50"}}, {Cells: []string{"b", "1.20"}, Warn: true}}}, nil
	}
	r, page := pageOf(t, adminOf(Options{Timers: newFake(), Version: "v9", Nodes: threeNodes, Tables: []func(context.Context) (Table, error){load}}))
	for _, part := range []string{"<h1>rouse v9</h1>", "<td>scheduled</td>", "<td>n1</td>", "leader", "<h2>Load</h2>", "&lt;b&gt;a&lt;/b&gt;", `<tr class="warn"><td>b</td><td>1.20</td></tr>`} {
		if !strings.Contains(page, part) {
			t.Errorf("it does not show %s:\n%s", part, page)
		}
	}
	if strings.Contains(page, "<b>a</b>") || strings.Contains(page, "<script") {
		t.Error("what others say is not shown as text")
	}
	if csp := r.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("it may load things: %q", csp)
	}
	want(t, do(adminOf(Options{Timers: newFake()}), "GET", "/nowhere", ""), 404)
	want(t, do(adminOf(Options{Timers: newFake()}), "POST", "/", ""), 405)
}

func TestThePageShowsFailedTables(t *testing.T) {
	broken := func(context.Context) (Table, error) { return Table{Title: "Load"}, errors.New("the load is unknown") }
	_, page := pageOf(t, adminOf(Options{Timers: newFake(), Live: func() error { return errors.New("the disk is gone") },
		Ready:  func() error { return errors.New("the disk is gone, and more") },
		Nodes:  func(context.Context) ([]Node, error) { return nil, fmt.Errorf("no store: %w", rouse.ErrUnavailable) },
		Tables: []func(context.Context) (Table, error){broken}}))
	for _, part := range []string{"<li>the disk is gone</li>", "<li>the nodes cannot be listed: no store", "<li>the load is unknown</li>", "<h2>Timers</h2>"} {
		if !strings.Contains(page, part) {
			t.Errorf("it does not say %q:\n%s", part, page)
		}
	}
	if strings.Contains(page, "and more") || strings.Contains(page, "<h2>Nodes</h2>") {
		t.Errorf("it shows too much:\n%s", page)
	}
}
