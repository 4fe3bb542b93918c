package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/internal/transport"
	"github.com/rousehq/rouse/store/mem"
)

// stuck is an engine and an issuer whose operations last until their callers give up.
type stuck struct {
	*fake
	console string
}

func (stuck) Search(ctx context.Context, _ rouse.Query) (timers.Listed, error) {
	<-ctx.Done()
	return timers.Listed{}, ctx.Err()
}

func (stuck) Simulate(ctx context.Context, _ rouse.Query, _, _ rouse.Instant, _ int) (timers.Simulated, error) {
	<-ctx.Done()
	return timers.Simulated{}, ctx.Err()
}

func (stuck) Bulk(ctx context.Context, _ timers.BulkRequest, _ func(timers.BulkProgress) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s stuck) Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	if strings.HasPrefix(puts[0].Spec.Target, "stream:") { // a request to a pool: its answer does not come
		return s.fake.Put(ctx, puts)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuck) Place() (issuer, label, console string) { return "issuer", "x", s.console }
func (stuck) SignOut() string                          { return "" }

func (stuck) Begin(ctx context.Context, _ *access.Attempt) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func (stuck) Finish(ctx context.Context, _ *access.Attempt, _ *access.Answer) (*access.Login, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Authenticate takes "NAMESPACE/NAME" for the credential of an admin of the namespace.
func (stuck) Authenticate(ctx context.Context, c *access.Credentials) (*access.Principal, error) {
	if c.Bearer == "stuck" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	namespace, _, ok := strings.Cut(c.Bearer, "/")
	if !ok {
		return nil, nil
	}
	return &access.Principal{ID: c.Bearer, Grants: []access.Grant{{Role: "admin", Scope: access.Scope{Namespaces: []string{namespace}}}}}, nil
}

// caller is one that asks, by a credential or an address.
type caller struct{ bearer, address string }

// response is one with deadlines.
type response struct{ *httptest.ResponseRecorder }

func (response) SetReadDeadline(time.Time) error  { return nil }
func (response) SetWriteDeadline(time.Time) error { return nil }

// placeHolder is a request that holds a place of one kind; NS is a namespace of the caller.
type placeHolder struct {
	method, path, body string
	open               bool // it needs no credentials, so that it is shared by address even with access control
}

// placeHolders are requests by the limits whose places they hold.
var placeHolders = map[string]placeHolder{
	"writes":      {method: "POST", path: "/v1/namespaces/NS/timers", body: goodJSON},
	"reads":       {method: "GET", path: "/v1/namespaces/NS/timers"},
	"followers":   {method: "GET", path: "/v1/namespaces/NS/records:follow"},
	"bulks":       {method: "POST", path: "/v1/namespaces/NS/timers:bulk", body: `{"action":"redrive","filter":{}}`},
	"simulations": {method: "POST", path: "/v1/namespaces/NS/timers:simulate", body: `{"until":"2030-01-02T00:00:00Z"}`},
	"calls":       {method: "POST", path: "/v1/namespaces/NS/pools/core/1:call?wait=5m", body: "x"},
	"open":        {method: "POST", path: "/v1/session", body: `{"key":"stuck"}`, open: true},
	"logins":      {method: "GET", path: "/v1/session/login?issuer=issuer", open: true},
}

// slotsOf returns the places of a service by the names of their limits.
func slotsOf(s *service) map[string]*slots {
	found := map[string]*slots{}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Type() == reflect.TypeFor[*slots]() {
			one := *(**slots)(unsafe.Pointer(f.UnsafeAddr()))
			found[one.limit] = one
		}
	}
	return found
}

// TestEveryKindOfPlaceIsTried: a limit that requests share has a row in the table of the test below, and
// words for its error.
func TestEveryKindOfPlaceIsTried(t *testing.T) {
	all := slotsOf(handlerOf(Options{Timers: newFake()}).service)
	for limit := range all {
		if _, ok := placeHolders[limit]; !ok {
			t.Errorf("no request in the table holds a place of %q", limit)
		}
		if sheds[limit] == "" {
			t.Errorf("the limit %q has no words for its error", limit)
		}
	}
	for limit := range sheds {
		if _, ok := all[limit]; !ok {
			t.Errorf("requests are shed by the limit %q, which is not shared by slots", limit)
		}
	}
	for limit := range placeHolders {
		if all[limit] == nil {
			t.Errorf("the table has %q, which is no limit", limit)
		}
	}
}

// TestOneClientLeavesPlaces: a client takes as many places of a kind as it gets; another one is served, of
// another tenant, of the same one, and from another address.
func TestOneClientLeavesPlaces(t *testing.T) {
	for limit, r := range placeHolders {
		for _, by := range []struct {
			name          string
			access        bool
			greedy        caller
			others        []caller
			atLeast, most int // that the greedy one gets of 8
		}{
			{"credential", true, caller{bearer: "acme/1"}, []caller{{bearer: "acme/2"}, {bearer: "globex/1"}}, 5, 5},
			{"address", r.open, caller{address: "192.0.2.1"}, []caller{{address: "192.0.2.2"}, {address: "2001:db8::1"}}, 6, 6},
		} {
			if by.access && r.open != (by.greedy.bearer == "") {
				continue
			}
			t.Run(limit+" by "+by.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := stuckHandler(t, by.access, limit, 8)
					ctx, giveUp := context.WithCancel(t.Context())
					held := 0
					for ; held <= 8; held++ {
						if status := askStuck(ctx, h, r, by.greedy); status != 0 {
							if status != 429 {
								t.Fatalf("the client is refused with %d", status)
							}
							break
						}
					}
					if held < by.atLeast || held > by.most {
						t.Errorf("one client holds %d of 8 places, want %d to %d", held, by.atLeast, by.most)
					}
					for _, other := range by.others {
						if status := askStuck(ctx, h, r, other); status != 0 {
							t.Errorf("%v is refused with %d", other, status)
						}
					}
					giveUp()
					synctest.Wait()
					if s := slotsOf(h.service)[limit]; s.used != 0 || len(s.held) != 0 {
						t.Errorf("%d places are held after the end: %v", s.used, s.held)
					}
				})
			})
		}
	}
}

// stuckHandler returns a handler in which nothing ends, with so many places of a kind.
func stuckHandler(t *testing.T, control bool, limit string, places int64) *httpHandler {
	t.Helper()
	engine := stuck{newFake(), "https://example.com"}
	o := Options{Timers: engine, Calls: NewCalls(aTarget)}
	if control {
		log := slog.New(slog.DiscardHandler)
		shared := access.NewShared(mem.New(), log)
		o.Access = &access.Gate{Control: access.NewControl(nil), Sessions: access.NewSessions(shared, nil, log),
			Authenticators: access.Chain{engine}, Providers: []access.Provider{engine}}
	}
	h := handlerOf(o)
	slotsOf(h.service)[limit].most = places
	return h
}

// addressed is a connection from an address, which may be empty.
type addressed struct {
	net.Conn
	address string
}

func (c addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1} }

// askStuck sends a request, and returns the status of its answer; 0 if it holds its place.
func askStuck(ctx context.Context, h *httpHandler, r placeHolder, from caller) int {
	namespace, _, _ := strings.Cut(from.bearer, "/")
	if namespace == "" {
		namespace = "default"
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	q := httptest.NewRequest(r.method, strings.ReplaceAll(r.path, "NS", namespace), body)
	if r.body != "" {
		q.Header.Set("Content-Type", jsonType)
	}
	if from.bearer != "" {
		q.Header.Set("Authorization", "Bearer "+from.bearer)
	}
	conn := transport.NewConns("", 1, 1, nil).AdmitConn(addressed{address: from.address}, nil)
	w := response{httptest.NewRecorder()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(w, q.WithContext(transport.ConnContext(ctx, conn)))
	}()
	synctest.Wait()
	select {
	case <-ended:
		return w.Code
	default:
		return 0
	}
}

// TestPlacesOfManyTenants: each gets fewer than the one before, and all get some, down to the last place.
func TestPlacesOfManyTenants(t *testing.T) {
	s := newSlots("reads", 64)
	var got []int
	for _, name := range []string{"a", "b", "c", "d"} {
		n := 0
		for ; ; n++ {
			if _, err := s.takePlace(tenant(t, name)); err != nil {
				if !errors.Is(err, rouse.ErrOverloaded) {
					t.Error(err)
				}
				break
			}
		}
		got = append(got, n)
	}
	if want := []int{36, 14, 6, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("tenants that come one after another get %v of 64, want %v", got, want)
	}
}

// TestALargeWriteWaitsForAFewPlaces: one that needs more than a sixteenth of all would wait for as long as
// small ones come and go.
func TestALargeWriteWaitsForAFewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for most, want := range map[int]int64{256: 16, 8: 1} {
			s := newSlots("writes", most)
			acme, globex := tenant(t, "acme"), tenant(t, "globex")
			for { // until globex has all that it gets
				if _, err := s.takeMany(globex, 1); err != nil {
					break
				}
			}
			var others []places
			for { // acme's own small ones
				p, err := s.takeMany(acme, 1)
				if err != nil {
					break
				}
				others = append(others, p)
			}
			got := make(chan places, 1)
			go func() {
				if p, err := s.awaitMany(acme, int64(most)); err == nil {
					got <- p
				}
			}()
			synctest.Wait()
			for _, p := range others[:min(len(others), 2*int(want))] { // most of acme's stay
				s.returnPlaces(p)
			}
			synctest.Wait()
			select {
			case p := <-got:
				if p.n != want {
					t.Errorf("of %d places, a large write waits for %d, want %d", most, p.n, want)
				}
			default:
				t.Fatalf("of %d places, %d were given back, and a large write still waits", most, 2*want)
			}
		}
	})
}

// TestWritersWaitInTurn: requests of one caller that wait are served in their order, and do not hold up those
// of another one, which has a smaller part.
func TestWritersWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots("writes", 256)
		acme, globex := tenant(t, "acme"), tenant(t, "globex")
		if all, err := s.takeMany(acme, 1000); err != nil || all.n != 144 { // as many as it can have
			t.Fatalf("took %d, %v", all.n, err)
		} else {
			s.returnPlaces(all)
		}
		var held []places
		for range 144 {
			one, err := s.takeMany(acme, 1)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, one)
		}
		order := make(chan int, 3)
		await := func(ctx context.Context, i int) {
			p, err := s.awaitMany(ctx, 100) // which waits for a few
			if err != nil {
				order <- -i
				return
			}
			order <- i
			s.returnPlaces(p)
		}
		gone, leave := context.WithCancel(acme)
		go await(gone, 1)
		synctest.Wait()
		go await(acme, 2)
		synctest.Wait()
		go await(acme, 3)
		synctest.Wait()
		if p, err := s.awaitMany(globex, 48); err != nil || len(order) != 0 {
			t.Errorf("another tenant: %v; %d of the waiting ones were served", err, len(order))
		} else {
			s.returnPlaces(p)
		}
		leave()
		synctest.Wait()
		for i := range held {
			s.returnPlaces(held[i])
			synctest.Wait()
		}
		for _, want := range []int{-1, 2, 3} {
			if got := <-order; got != want {
				t.Errorf("%d came, want %d", got, want)
			}
		}
		if s.used != 0 || len(s.held) != 0 || len(s.waiting) != 0 {
			t.Errorf("%d places are held, by %v; %v wait", s.used, s.held, s.waiting)
		}
	})
}
