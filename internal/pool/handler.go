package pool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
)

// Transport has the methods of a pool's transport that NewHandler needs. It may be an Inventory too.
type Transport interface {
	State() string  // in a word or two: connecting, standing by or leading
	Leader() string // the process that leads the pool, if known
}

// Served is a pool of this process.
type Served struct {
	Manager   *Manager
	Transport Transport
}

// NewHandler serves the state of the pools of a process and their poison requests. These are no RPCs of
// rouse.v1, as requests to pools and the status of all nodes' pools are: they concern one process, and one
// that manages pools only has no API, but an admin port.
//
//	GET    /pools                          all pools
//	GET    /pools/{pool}                   one of them, as View
//	POST   /pools/{pool}/stop?key=K, /pools/{pool}/restart?key=K, /pools/{pool}/pin?key=K[&off=true]    of the group of a key
//	GET    /pools/{pool}/poison?limit=N    its poison requests, without their bodies
//	GET    /pools/{pool}/poison/{id}       one of them, with its body
//	POST   /pools/{pool}/poison/{id}/replay, /pools/{pool}/poison/replay    give it, or all, to workers again
//	DELETE /pools/{pool}/poison/{id}, /pools/{pool}/poison                  delete it, or all
//
// Errors are JSON objects with a member error. Requests of pages of other origins are refused if they would
// change something.
func NewHandler(pools []Served) http.Handler {
	h := &handler{list: pools, pools: map[string]Served{}}
	for _, p := range pools {
		h.pools[p.Manager.config.Name] = p
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pools", h.servePools)
	mux.HandleFunc("GET /pools/{pool}", h.withServedPool(func(p Served, _ *http.Request) (any, error) {
		v := p.Manager.View()
		v.Leader = p.Transport.Leader()
		return v, nil
	}))
	for verb, do := range map[string]func(m *Manager, key string, r *http.Request) error{
		"stop":    func(m *Manager, key string, _ *http.Request) error { return m.Stop(key) },
		"restart": func(m *Manager, key string, _ *http.Request) error { return m.Restart(key) },
		"pin": func(m *Manager, key string, r *http.Request) error {
			return m.Pin(key, r.URL.Query().Get("off") != "true")
		},
	} {
		mux.HandleFunc("POST /pools/{pool}/"+verb, h.withServedPool(func(p Served, r *http.Request) (any, error) {
			if !r.URL.Query().Has("key") {
				return nil, rouse.Refuse("key", "", "is missing",
					"name a group by its key, which may be empty, or by NAMESPACE/KEY if namespaces are apart")
			}
			key := r.URL.Query().Get("key")
			return Operated{p.Manager.config.Name, key, verb}, do(p.Manager, key, r)
		}))
	}
	mux.HandleFunc("GET /pools/{pool}/poison", h.withInventory(listPoison))
	mux.HandleFunc("GET /pools/{pool}/poison/{id}", h.withInventory(func(i Inventory, r *http.Request) (any, error) {
		return i.InspectPoison(r.Context(), r.PathValue("id"))
	}))
	replay := h.withInventory(func(i Inventory, r *http.Request) (any,
		error) {
		return changePoisonByID(i.ReplayPoison, r)
	})
	purge := h.withInventory(func(i Inventory, r *http.Request) (any, error) { return changePoisonByID(i.PurgePoison, r) })
	mux.HandleFunc("POST /pools/{pool}/poison/{id}/replay", replay)
	mux.HandleFunc("POST /pools/{pool}/poison/replay", replay)
	mux.HandleFunc("DELETE /pools/{pool}/poison/{id}", purge)
	mux.HandleFunc("DELETE /pools/{pool}/poison", purge)
	return http.NewCrossOriginProtection().Handler(mux)
}

type handler struct {
	list  []Served
	pools map[string]Served // by their names
}

// Summary is one line in the list of pools.
type Summary struct {
	Pool       string    `json:"pool"`
	Namespaces string    `json:"namespaces"` // shared or apart
	State      string    `json:"state"`
	Since      time.Time `json:"since,omitzero"` // when this process became its leader
	Groups     int       `json:"groups"`
	Workers    int       `json:"workers"`
	Waiting    int       `json:"waiting"`          // groups and starts that wait for a limit
	Leader     string    `json:"leader,omitempty"` // the process that leads it, if known
}

// Operated is the answer to an operation on the group of a key.
type Operated struct {
	Pool string `json:"pool"`
	Key  string `json:"key"`
	Verb string `json:"did"` // stop, restart or pin
}

// summarizePools returns one line for each pool.
func summarizePools(pools []Served) []Summary {
	list := []Summary{}
	for _, p := range pools {
		v := p.Manager.View()
		s := p.statusOf(&v)
		list = append(list, Summary{Pool: s.Pool, Namespaces: s.Namespaces, State: s.State, Since: v.Since,
			Groups: s.GroupCount, Workers: s.Workers, Waiting: s.Waiting, Leader: s.Leader})
	}
	return list
}

func (h *handler) servePools(w http.ResponseWriter, _ *http.Request) {
	writeJSONReply(w, http.StatusOK, summarizePools(h.list))
}

// The states of transports.
const (
	StateConnecting = "connecting"
	StateStandingBy = "standing by"
	StateLeading    = "leading"
)

// longestCall is the timeout of a request. Poison inventories may be long.
const longestCall = time.Minute

// withServedPool calls f with the pool in the path and writes its result.
func (h *handler) withServedPool(f func(Served, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, ok := h.pools[r.PathValue("pool")]
		if !ok {
			writeJSONReply(w, http.StatusNotFound, failure{"there is no such pool in this process"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), longestCall)
		defer cancel()
		v, err := f(p, r.WithContext(ctx))
		if err != nil {
			writeJSONReply(w, statusOf(err), failure{err.Error()})
			return
		}
		writeJSONReply(w, http.StatusOK, v)
	}
}

// errNoInventory refuses requests for poison if the transport keeps none: requests that workers died with are
// dead letters then, like those of all timers.
var errNoInventory = rouse.Refuse("poison", "", "is not kept apart in rouse's own store",
	"use rouse dead list, show, redrive and purge")

// withInventory serves poison requests.
func (h *handler) withInventory(f func(i Inventory, r *http.Request) (any, error)) http.HandlerFunc {
	return h.withServedPool(func(p Served, r *http.Request) (any, error) {
		i, ok := p.Transport.(Inventory)
		if !ok {
			return nil, errNoInventory
		}
		return f(i, r)
	})
}

type failure struct {
	Error string `json:"error"`
}

func statusOf(err error) int {
	switch {
	case errors.As(err, new(*rouse.Invalid)):
		return http.StatusBadRequest
	case errors.Is(err, rouse.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, rouse.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

func writeJSONReply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}

// mostListed is the highest limit of a list of poison requests.
const mostListed = 1000

func listPoison(i Inventory, r *http.Request) (any, error) {
	limit := 100
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostListed {
			return nil, rouse.Refuse("limit", rouse.Shorten(text, 64), "is out of range", "give 1 to "+strconv.Itoa(mostListed))
		}
	}
	return i.ListPoison(r.Context(), limit)
}

// Changed is how many poison requests an operation affected.
type Changed struct {
	Requests int `json:"requests"`
}

func changePoisonByID(do func(ctx context.Context, id string) (int, error), r *http.Request) (any, error) {
	n, err := do(r.Context(), r.PathValue("id"))
	return Changed{n}, err
}
