package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/transport"
)

// from opens a connection from a loopback address.
func from(t *testing.T, local, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a GET over a connection and returns the status, 0 if there is no answer.
func ask(c net.Conn, path string) int {
	_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n") // it may be closed already
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	if !strings.Contains(path, ":follow") {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return r.StatusCode
}

// refusedCounts counts refusals by limit.
type refusedCounts struct {
	mu sync.Mutex
	n  map[string]int
}

func (r *refusedCounts) note(limit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int{}
	}
	r.n[limit]++
}

func (r *refusedCounts) of(limit string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n[limit]
}

func TestIdleConnectionsLockNothingOut(t *testing.T) {
	var refused refusedCounts
	s := serve(t, Options{Timers: newFake(), MaxConns: 20, MaxConnsAddress: 10, Refused: refused.note})
	for _, at := range []string{s.addr, s.admin} {
		path := map[string]string{s.addr: "/v1/version", s.admin: "/livez"}[at]
		for i := range 3 * maxAdminConnsAddress {
			c := from(t, "127.0.0.1", at)
			switch i % 4 {
			case 1:
				_, _ = io.WriteString(c, "GET /never HTTP/1.1\r\nHo")
			case 2:
				ask(c, path)
			case 3:
				_, _ = io.WriteString(c, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			}
		}
		if got := ask(from(t, "127.0.0.1", at), path); got != 200 {
			t.Errorf("%s of the same address: %d", path, got)
		}
		if got := ask(from(t, "127.0.0.2", at), path); got != 200 {
			t.Errorf("%s of another address: %d", path, got)
		}
	}
	if _, err := s.timers().Count(t.Context(), &rousev1.CountRequest{}); err != nil {
		t.Error(err)
	}
	for _, limit := range []string{"connections-per-address", "admin-connections-per-address"} {
		if refused.of(limit) == 0 {
			t.Errorf("%s was not counted", limit)
		}
	}
}

func TestConnectionsInUseKeepTheirPlace(t *testing.T) {
	var refused refusedCounts
	s := serve(t, Options{Timers: newFake(), MaxConns: 4, MaxConnsAddress: 3, Refused: refused.note})
	const follow = "/v1/namespaces/ns/records:follow"
	for i := range 3 {
		if got := ask(from(t, "127.0.0.1", s.addr), follow); got != 200 {
			t.Fatalf("connection %d: %d", i, got)
		}
	}
	if got := ask(from(t, "127.0.0.1", s.addr), "/v1/version"); got != 0 {
		t.Errorf("beyond the limit of an address: %d", got)
	}
	if got := ask(from(t, "127.0.0.2", s.addr), follow); got != 200 {
		t.Errorf("another address: %d", got)
	}
	if got := ask(from(t, "127.0.0.3", s.addr), "/v1/version"); got != 0 {
		t.Errorf("beyond the limit of all: %d", got)
	}
	for _, limit := range []string{"connections-per-address", "connections"} {
		if n := refused.of(limit); n != 1 {
			t.Errorf("%s was counted %d times", limit, n)
		}
	}
}

// part is a gRPC call whose message does not end: HEADERS and DATA on an otherwise idle connection.
type part struct {
	net.Conn
	framer *http2.Framer
	next   uint32
}

func unfinished(c net.Conn) (*part, error) {
	p := &part{Conn: c, framer: http2.NewFramer(c, nil), next: 1}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	return p, errors.Join(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}), p.framer.WriteWindowUpdate(0, 1<<20))
}

// open begins a call with a message of a given size and sends part of it, optionally padded.
func (p *part) open(length, sent int, frame int) error {
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/rouse.v1.Timers/BatchCreate"}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	id := p.next
	p.next += 2
	if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true}); err != nil {
		return err
	}
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(length))
	data = append(data, make([]byte, sent)...)
	for len(data) > 0 {
		n := min(len(data), frame)
		if err := p.framer.WriteDataPadded(id, false, data[:n], make([]byte, n%3)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func TestUnfinishedMessagesShareABudget(t *testing.T) {
	var refused refusedCounts
	const budget = 2 << 20
	o := Options{Timers: newFake(), RequestMemory: budget, Refused: refused.note}
	s := serve(t, o)
	good := s.timers()
	var held []*part
	most := int64(0)
	for range 40 { // of 200 KiB each
		p, err := unfinished(from(t, "127.0.0.2", s.addr))
		for i := 0; i < 5 && err == nil; i++ {
			err = p.open(4<<20, 40<<10, 4<<10)
		}
		held = append(held, p)
		most = max(most, s.server.Load().Memory)
		if _, err := good.Create(t.Context(), &rousev1.CreateRequest{Spec: goodSpec()}); err != nil {
			t.Fatalf("another client: %v", err)
		}
	}
	if most > budget+1<<20 {
		t.Errorf("%d bytes were held, the budget is %d", most, budget)
	}
	if refused.of("request-memory") == 0 {
		t.Error("the limit was not counted")
	}
	for len(held) > 0 && s.server.Load().Memory < budget-200<<10 { // until the budget is used up
		p, err := unfinished(from(t, "127.0.0.2", s.addr))
		if err == nil {
			_ = p.open(4<<20, 100<<10, 4<<10)
		}
		held = append(held, p)
		time.Sleep(time.Millisecond)
	}
	body := `{"timers":[` + strings.Repeat(goodJSON+",", 300) + goodJSON + `]}` // takes more than is left
	for range 5 {
		r, err := http.Post("http://"+s.addr+timersURL+":batchCreate", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Errorf("a request of another address: %s", r.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for _, p := range held {
		p.Close()
	}
	wantMemory(t, s, 0)
}

const goodJSON = good // for tests that shadow good

// wantMemory waits until requests take this much memory.
func wantMemory(t *testing.T, s *running, want int64) {
	t.Helper()
	if !poll.Holds(poll.Patience, func() bool { return s.server.Load().Memory == want }) {
		t.Fatalf("%d bytes are held, want %d", s.server.Load().Memory, want)
	}
}

// TestMemoryIsGivenBack: a call releases its memory, however it ends.
func TestMemoryIsGivenBack(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	conn := s.dial()
	c := rousev1.NewTimersClient(conn)
	batch := func(n, payload int) *rousev1.BatchCreateRequest {
		r := &rousev1.BatchCreateRequest{}
		for range n {
			spec := goodSpec()
			spec.Payload = make([]byte, payload)
			r.Timers = append(r.Timers, &rousev1.NewTimer{Spec: spec})
		}
		return r
	}
	for _, r := range []*rousev1.BatchCreateRequest{batch(1, 1), batch(100, 10), batch(100, 100<<10/100), batch(20, 200<<10), batch(rouse.MaxBatch+1, 0)} {
		_, _ = c.BatchCreate(t.Context(), r)
	}
	stream, err := c.CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := stream.Send(batch(10, 1<<10)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.server.Load().Memory; n > 1<<20 {
		t.Errorf("a stream that goes on holds %d bytes of what it is done with", n)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cut, err := c.CreateStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = cut.Send(batch(10, 100<<10))
	cancel()
	late, cancelLate := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelLate()
	_, _ = c.BatchCreate(late, batch(20, 200<<10))
	for _, body := range []string{good, "{", `{"timers":[` + strings.Repeat(good+",", 500) + good + `]}`} {
		for _, path := range []string{timersURL, timersURL + ":batchCreate"} {
			r, err := http.Post("http://"+s.addr+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
	wantMemory(t, s, 0)
	p, err := unfinished(from(t, "127.0.0.1", s.addr))
	if err == nil {
		err = errors.Join(p.open(1<<20, 1000, 1), p.open(1<<20, 100, 7), p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	}
	if err != nil {
		t.Fatal(err)
	}
	wantMemory(t, s, 105+14*96) // of the second call, in 15 frames; each beyond the first costs 96 bytes more
	p.Close()
	wantMemory(t, s, 0)
}

func TestMessagesHaveToArriveInTime(t *testing.T) {
	var refused refusedCounts
	inVirtualTime(t, Options{Timers: newFake(), Refused: refused.note}, func(t *testing.T, p *pipes) {
		conn := p.dial()
		var reader sync.WaitGroup
		began := time.Now()
		var ended time.Duration
		reader.Go(func() {
			_, _ = io.Copy(io.Discard, conn)
			ended = time.Since(began)
		})
		c, err := unfinished(conn)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_ = c.open(100, 50, 10)
		for range 8 { // other frames do not extend its time
			time.Sleep(2 * time.Second)
			_ = c.framer.WriteWindowUpdate(0, 1)
		}
		reader.Wait()
		if ended < transport.ReceiveTimeout || ended > transport.ReceiveTimeout+2*time.Second {
			t.Errorf("closed after %v", ended)
		}
		conn.Close()
	})
	if n := refused.of("receive-timeout"); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestLongListsAreNotDecoded: refusing a list beyond the limit takes about as much memory as its bytes.
func TestLongListsAreNotDecoded(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	n := (maxBatchBody - 100) / 3
	for path, limit := range map[string]int{timersURL + ":batchCreate": rouse.MaxBatch, timersURL + ":import": maxImport} {
		body := `{"timers":[` + strings.Repeat("{},", n) + "{}]}"
		bytes := allocated(func() {
			r, err := http.Post("http://"+s.addr+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			answer, _ := io.ReadAll(r.Body)
			if want := fmt.Sprintf(`are too many; send at most %d at a time`, limit); r.StatusCode != 422 || !strings.Contains(string(answer), want) {
				t.Errorf("%s: %d %s", path, r.StatusCode, answer)
			}
		})
		if bytes > 8*maxBatchBody {
			t.Errorf("%s: %d MiB were allocated for a body of %d MiB", path, bytes>>20, len(body)>>20)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	conn := s.dial()
	raw := []byte(strings.Repeat("\x1a\x00", maxBatchBody/2-100)) // field 3, empty messages
	for method, limit := range map[string]int{"BatchCreate": rouse.MaxBatch, "Import": maxImport} {
		field := map[string]byte{"BatchCreate": batchTimersTag(t), "Import": importTimersTag(t)}[method]
		for i := 0; i < len(raw); i += 2 {
			raw[i] = field
		}
		bytes := allocated(func() {
			err := conn.Invoke(t.Context(), "/rouse.v1.Timers/"+method, raw, &struct{}{}, grpc.ForceCodec(rawCodec{}))
			if want := fmt.Sprintf(`are too many; send at most %d at a time`, limit); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", method, err)
			}
		})
		if bytes > 8*maxBatchBody {
			t.Errorf("%s: %d MiB were allocated for a message of %d MiB", method, bytes>>20, len(raw)>>20)
		}
	}
	wantMemory(t, s, 0)
}

func batchTimersTag(*testing.T) byte {
	return byte((&rousev1.BatchCreateRequest{}).ProtoReflect().Descriptor().Fields().ByName("timers").Number()<<3 | 2)
}

func importTimersTag(*testing.T) byte {
	return byte((&rousev1.ImportRequest{}).ProtoReflect().Descriptor().Fields().ByName("timers").Number()<<3 | 2)
}

// TestLimitsAreTheSameThroughEveryDoor: HTTP and gRPC have the same limits for lists and sizes, to the last
// item.
func TestLimitsAreTheSameThroughEveryDoor(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	defer http.DefaultClient.CloseIdleConnections()
	c := s.timers()
	ask := func(method, path, body string) int {
		r, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	list := func(n int) string { return `{"timers":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}` }
	for n, fits := range map[int]bool{0: true, 1: true, rouse.MaxBatch: true, rouse.MaxBatch + 1: false} {
		r := &rousev1.BatchCreateRequest{}
		for range n {
			r.Timers = append(r.Timers, &rousev1.NewTimer{})
		}
		_, err := c.BatchCreate(t.Context(), r)
		if code := ask("POST", timersURL+":batchCreate", list(n)); fits != (err == nil) || fits != (code == 200) {
			t.Errorf("a batch of %d: %d, %v", n, code, err)
		}
	}
	for n, fits := range map[int]bool{0: true, 1: true, maxImport: true, maxImport + 1: false} {
		r := &rousev1.ImportRequest{}
		for range n {
			r.Timers = append(r.Timers, &rousev1.Timer{})
		}
		_, err := c.Import(t.Context(), r)
		if code := ask("POST", timersURL+":import", list(n)); fits != (err == nil) || fits != (code == 200) {
			t.Errorf("an import of %d: %d, %v", n, code, err)
		}
	}
	for n, fits := range map[uint32]bool{0: true, 1: true, maxPage: true, maxPage + 1: false} {
		_, err := c.List(t.Context(), &rousev1.ListRequest{PageSize: n})
		if code := ask("GET", fmt.Sprintf("%s?page_size=%d", timersURL, n), ""); fits != (err == nil) || fits != (code == 200) {
			t.Errorf("a page of %d: %d, %v", n, code, err)
		}
		_, err = c.ListRecords(t.Context(), &rousev1.ListRecordsRequest{PageSize: n})
		if code := ask("GET", fmt.Sprintf("/v1/namespaces/ns/records?page_size=%d", n), ""); fits != (err == nil) || fits != (code == 200) {
			t.Errorf("a page of %d records: %d, %v", n, code, err)
		}
	}
	for extra, fits := range map[int]bool{-100: true, 1: false} {
		body := `{"timers":[]}`
		body += strings.Repeat(" ", maxBatchBody-len(body)+extra)
		_, err := c.BatchCreate(t.Context(), &rousev1.BatchCreateRequest{Timers: []*rousev1.NewTimer{{Spec: &rousev1.Spec{Payload: make([]byte, maxBatchBody+extra)}}}})
		if code := ask("POST", timersURL+":batchCreate", body); fits != (err == nil) || fits != (code == 200) {
			t.Errorf("%d bytes more than the largest: %d, %v", extra, code, err)
		}
	}
}

// TestWhatDecodesToMuchIsRefused: few bytes that decode to many count as many.
func TestWhatDecodesToMuchIsRefused(t *testing.T) {
	s := serve(t, Options{Timers: newFake(), RequestMemory: 16 << 20})
	body := `{"timers":[{"failures":[` + strings.Repeat("{},", 1<<20) + `{}]}]}`
	r, err := http.Post("http://"+s.addr+timersURL+":import", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if r.StatusCode != 413 {
		t.Errorf("%s", r.Status)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	failures := make([]*rousev1.Attempt, 200_000)
	for i := range failures {
		failures[i] = &rousev1.Attempt{}
	}
	_, err = rousev1.NewTimersClient(conn).Import(t.Context(), &rousev1.ImportRequest{Timers: []*rousev1.Timer{{Failures: failures}}})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	wantMemory(t, s, 0)
}
