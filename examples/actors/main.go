// Actors is a program that hosts actors: the carts of a shop. Start it as often as you like, on as many
// machines: each cart is on one of the processes, each process forwards requests to that one, and when one
// dies its carts move to the others. An idle cart is reminded to give its things back, on the process where
// it is by then.
//
//	rouse serve --reminders &
//	actors 127.0.0.1:7411 127.0.0.1:8001 &
//	actors 127.0.0.1:7411 127.0.0.1:8002 &
//	curl -X POST '127.0.0.1:8001/carts/17?item=tea'
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/rousehq/rouse/client/reminder"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: actors ROUSE-HOST:PORT LISTEN-HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// host has the carts of this process. Their things are in memory here; a real shop keeps them in its
// database.
type host struct {
	reminders *reminder.Client
	ready     chan struct{} // closed when reminders is there

	mu    sync.Mutex
	carts map[string][]string
}

func run(ctx context.Context, rouse, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	defer l.Close()
	h := &host{carts: map[string][]string{}, ready: make(chan struct{})}
	// The address identifies the host, and others reach it there: a lookup of a cart returns it.
	h.reminders, err = reminder.Open(rouse, reminder.Options{App: "shop", Address: l.Addr().String(),
		ActorTypes: []string{"Cart"}, Handle: h.handleReminder})
	if err != nil {
		return err
	}
	close(h.ready)
	defer h.reminders.Close()
	if err := h.reminders.Ready(ctx); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /carts/{id}", h.addItem)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Println("listening on", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// abandoned is after how long a cart is reminded.
const abandoned = "3s"

// addItem puts a thing into a cart, here if it is here, or else where it is.
func (h *host) addItem(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	cart := reminder.Actor{Type: "Cart", ID: r.PathValue("id")}
	at, err := h.reminders.Locate(ctx, cart)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case at.Address != h.reminders.Address() && r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "the cart is moving, try again", http.StatusServiceUnavailable)
		return
	case at.Address != h.reminders.Address():
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at.Address}).ServeHTTP(w, r)
		return
	}
	h.mu.Lock()
	h.carts[cart.ID] = append(h.carts[cart.ID], r.URL.Query().Get("item"))
	things := len(h.carts[cart.ID])
	h.mu.Unlock()
	if things == 1 {
		if _, err := h.reminders.Create(ctx, reminder.Reminder{Name: "abandoned", InitialDelay: abandoned,
			Actor: cart}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintf(w, "cart %s on %s: %d things\n", cart.ID, at.Address, things)
}

// handleReminder is called when a reminder of one of the carts here is due.
func (h *host) handleReminder(ctx context.Context, e reminder.Execution) error {
	<-h.ready
	cart := e.Reminder.Actor
	at, err := h.reminders.Locate(ctx, cart)
	if err != nil {
		return err
	}
	h.mu.Lock()
	things := len(h.carts[cart.ID])
	delete(h.carts, cart.ID)
	h.mu.Unlock()
	fmt.Printf("cart %s was %s, with %d things\n", cart.ID, e.Reminder.Name, things)
	return h.reminders.Deactivate(ctx, cart, at.Generation) // it is not needed here any more
}
