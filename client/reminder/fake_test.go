package reminder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeService is a reminder service of several instances, each with its own server, which the test controls:
// it stores reminders, but fires none by itself.
type fakeService struct {
	t         *testing.T
	heartbeat time.Duration

	mu         sync.Mutex
	inns       []*fakeInstance
	generation uint64
	rows       []*reminderv1.TokenBucketInstanceSync
	unlisted   bool // instances are not named
	reminders  map[string]*reminderv1.Reminder
	next       int32
	changed    *sync.Cond
}

// fakeInstance is an instance.
type fakeInstance struct {
	reminderv1.UnimplementedReminderServiceServer
	h       *fakeService
	address string
	server  *grpc.Server
	stage   *stage
	serving sync.WaitGroup

	// The fakeService's mutex guards what follows.
	standing []*standing // streams
	calls    []string    // what it was asked for, with the address of the caller or the id
	refuse   func(method string) error
	after    bool          // refuse after the call had its effect
	mute     bool          // it sends nothing over streams
	stuck    chan struct{} // set: calls hang until it is closed
	gone     bool
	beats    int // received
}

// standing is a stream of a sidecar's.
type standing struct {
	hello   *reminderv1.SidecarHello
	stream  reminderv1.ReminderService_ConnectSidecarServer
	cut     context.CancelCauseFunc
	sending sync.Mutex

	// The fakeService's mutex guards what follows.
	answers []*reminderv1.ExecuteReminderResponse
	eof     bool // the sidecar has ended it in order
}

const (
	app    = "orderapp"
	vector = "drftghrq"
)

// open opens a fakeService of n instances.
func open(t *testing.T, n int) *fakeService {
	h := &fakeService{t: t, heartbeat: 2 * time.Second, reminders: map[string]*reminderv1.Reminder{}, generation: 1}
	h.changed = sync.NewCond(&h.mu)
	for range n {
		h.build("127.0.0.1:0")
	}
	t.Cleanup(func() {
		for _, i := range h.inns {
			i.stop()
		}
	})
	return h
}

// build adds an instance.
func (h *fakeService) build(address string) *fakeInstance {
	h.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	i := &fakeInstance{h: h, address: l.Addr().String(), server: grpc.NewServer(grpc.WaitForHandlers(true))}
	i.stage = &stage{i: i, at: map[string]string{}}
	reminderv1.RegisterReminderServiceServer(i.server, i)
	reminderv1.RegisterActorServiceServer(i.server, i.stage)
	i.serving.Go(func() { _ = i.server.Serve(l) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inns = append(h.inns, i)
	return i
}

// stop kills an instance.
func (i *fakeInstance) stop() {
	i.h.mu.Lock()
	i.gone = true
	if i.stuck != nil {
		close(i.stuck)
		i.stuck = nil
	}
	i.h.mu.Unlock()
	i.server.Stop()
	i.serving.Wait()
}

// row sets the owner of a bucket, and publishes the table.
func (h *fakeService) row(bucket, sidecar, instance string) {
	h.mu.Lock()
	r := &reminderv1.TokenBucketInstanceSync{TokenBucketId: bucket, Vector: vector, AppId: app, State: reminderv1.TokenBucketState_TOKEN_BUCKET_STATE_ACTIVE}
	var n int32
	_, _ = fmt.Sscanf(bucket, "B%d", &n)
	r.RangeFrom, r.RangeTo = (n-1)*100_000+1, n*100_000
	r.SidecarInstance, r.RemSerInstance = sidecar, instance
	h.rows = slices.DeleteFunc(h.rows, func(o *reminderv1.TokenBucketInstanceSync) bool { return o.TokenBucketId == bucket })
	h.rows = append(h.rows, r)
	h.mu.Unlock()
	h.publish()
}

// publish sends the table to all sidecars, with a new generation.
func (h *fakeService) publish() {
	h.mu.Lock()
	h.generation++
	update := h.update()
	var all []*standing
	for _, i := range h.inns {
		if !i.mute {
			all = append(all, i.standing...)
		}
	}
	h.mu.Unlock()
	for _, s := range all {
		s.tell(update)
	}
}

// update is the table. The mutex is held.
func (h *fakeService) update() *reminderv1.TokenBucketsUpdate {
	u := &reminderv1.TokenBucketsUpdate{Generation: h.generation, InstanceSync: slices.Clone(h.rows)}
	for _, i := range h.inns {
		if !i.gone && !h.unlisted {
			u.Instances = append(u.Instances, &reminderv1.ReminderInstance{Address: i.address, Node: i.address})
		}
	}
	return u
}

func (s *standing) tell(u *reminderv1.TokenBucketsUpdate) {
	s.send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_TokenBucketsUpdate{TokenBucketsUpdate: u}})
}

func (s *standing) execute(r *reminderv1.ExecuteReminderRequest) {
	s.send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_ExecuteReminderReq{ExecuteReminderReq: r}})
}

func (s *standing) send(m *reminderv1.ReminderServiceStream) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.stream.Send(m) // if it is over, its Recv returns that
}

// enter counts a call, and returns how it fails, and whether that is after its effect.
func (i *fakeInstance) enter(ctx context.Context, method, what string) (err error, after bool) {
	i.h.mu.Lock()
	i.calls = append(i.calls, method+" "+what)
	refuse, stuck := i.refuse, i.stuck
	after = i.after
	i.h.changed.Broadcast()
	i.h.mu.Unlock()
	if refuse != nil {
		err = refuse(method)
	}
	if stuck != nil && method != "Register" {
		select {
		case <-stuck:
		case <-ctx.Done():
			return ctx.Err(), false
		}
	}
	return err, after
}

func (i *fakeInstance) RegisterSidecar(ctx context.Context, r *reminderv1.RegisterSidecarRequest) (*reminderv1.RegisterSidecarResponse, error) {
	if err, _ := i.enter(ctx, "Register", r.GetAddress()); err != nil {
		return nil, err
	}
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	answer := &reminderv1.RegisterSidecarResponse{TokenBucketPrefix: "B", Heartbeat: durationpb.New(i.h.heartbeat)}
	for _, in := range i.h.update().Instances {
		answer.Instances = append(answer.Instances, in.Address)
	}
	return answer, nil
}

func (i *fakeInstance) ConnectSidecar(stream reminderv1.ReminderService_ConnectSidecarServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(stream.Context())
	s := &standing{hello: first.GetHello(), stream: stream, cut: cut}
	defer cut(nil)
	h := i.h
	h.mu.Lock()
	i.standing = append(i.standing, s)
	update, mute := h.update(), i.mute
	h.changed.Broadcast()
	h.mu.Unlock()
	if !mute {
		s.tell(update)
	}
	i.serving.Go(func() { i.beat(ctx, s) })
	heard := make(chan error, 1)
	i.serving.Go(func() { heard <- i.listen(s) })
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		i.standing = slices.DeleteFunc(i.standing, func(o *standing) bool { return o == s })
		h.changed.Broadcast()
	}()
	select {
	case <-heard:
		cut(nil)
		return nil
	case <-ctx.Done():
		return status.Error(codes.Unavailable, "cut")
	}
}

// beat sends empty messages.
func (i *fakeInstance) beat(ctx context.Context, s *standing) {
	tick := time.NewTicker(i.h.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		i.h.mu.Lock()
		mute := i.mute
		i.h.mu.Unlock()
		if !mute {
			s.send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}})
		}
	}
}

func (i *fakeInstance) listen(s *standing) error {
	for {
		m, err := s.stream.Recv()
		i.h.mu.Lock()
		switch {
		case err != nil:
			s.eof = err.Error() == "EOF"
		case m.GetEmptyMsg() != nil:
			i.beats++
		case m.GetExecuteReminderRes() != nil:
			s.answers = append(s.answers, m.GetExecuteReminderRes())
		}
		i.h.changed.Broadcast()
		i.h.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (i *fakeInstance) CreateReminder(ctx context.Context, r *reminderv1.CreateReminderRequest) (*reminderv1.CreateReminderResponse, error) {
	err, after := i.enter(ctx, "Create", r.GetCaller().GetAddress())
	if err != nil && !after {
		return nil, err
	}
	h := i.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, row := range h.rows {
		if row.SidecarInstance == r.GetCaller().GetAddress() && row.RemSerInstance == i.address {
			h.next++
			id := fmt.Sprintf("reminder||B||%d||%s", row.RangeFrom+h.next, vector)
			h.reminders[id] = r.Reminder
			return &reminderv1.CreateReminderResponse{ReminderId: id, TokenBucketId: row.TokenBucketId, NextExecutionTime: r.Reminder.NextExecutionTime}, err
		}
	}
	return nil, reasoned(codes.FailedPrecondition, "WRONG_INSTANCE", nil)
}

func (i *fakeInstance) GetReminder(ctx context.Context, r *reminderv1.GetReminderRequest) (*reminderv1.GetReminderResponse, error) {
	if err, _ := i.enter(ctx, "Get", r.GetReminderId()); err != nil {
		return nil, err
	}
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	if i.h.reminders[r.ReminderId] == nil {
		return nil, status.Error(codes.NotFound, "no reminder has this id")
	}
	return &reminderv1.GetReminderResponse{ReminderId: r.ReminderId, Reminder: i.h.reminders[r.ReminderId], AppId: app}, nil
}

func (i *fakeInstance) DeleteReminder(ctx context.Context, r *reminderv1.DeleteReminderRequest) (*reminderv1.DeleteReminderResponse, error) {
	err, after := i.enter(ctx, "Delete", r.GetReminderId())
	if err != nil && !after {
		return nil, err
	}
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	if i.h.reminders[r.ReminderId] == nil && err == nil {
		return nil, status.Error(codes.NotFound, "no reminder has this id")
	}
	delete(i.h.reminders, r.ReminderId)
	return &reminderv1.DeleteReminderResponse{}, err
}

func (i *fakeInstance) SubscribeReminder(ctx context.Context, r *reminderv1.SubscribeReminderRequest) (*reminderv1.SubscribeReminderResponse, error) {
	if err, _ := i.enter(ctx, "Subscribe", r.GetCaller().GetAddress()); err != nil {
		return nil, err
	}
	answer := &reminderv1.SubscribeReminderResponse{}
	for _, id := range r.ReminderList {
		result := &reminderv1.SubscribeReminderResult{Asked: id, ReminderId: "new-" + id}
		if id == "busy" {
			result = &reminderv1.SubscribeReminderResult{Asked: id, Code: int32(codes.Aborted), Error: "it is being executed"}
		}
		answer.ReminderId, answer.Results = append(answer.ReminderId, result.ReminderId), append(answer.Results, result)
	}
	return answer, nil
}

// reasoned returns an error as the service gives it.
func reasoned(code codes.Code, reason string, metadata map[string]string) error {
	st, err := status.New(code, reason).WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: reason, Metadata: metadata})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// until waits until something is so. The mutex is held while it is asked.
func (h *fakeService) until(what string, is func() bool) {
	h.t.Helper()
	late := time.AfterFunc(poll.Patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.changed.Broadcast()
	})
	defer late.Stop()
	end := time.Now().Add(20 * time.Second)
	h.mu.Lock()
	defer h.mu.Unlock()
	for !is() {
		if !time.Now().Before(end) {
			h.t.Fatalf("waited in vain until %s", what)
		}
		h.changed.Wait()
	}
}

// stream waits for the one stream of an instance.
func (i *fakeInstance) stream() (s *standing) {
	i.h.t.Helper()
	i.h.until("there is one stream to "+i.address, func() bool {
		if len(i.standing) == 1 {
			s = i.standing[0]
		}
		return len(i.standing) == 1
	})
	return s
}

// answered waits for n answers over a stream.
func (h *fakeService) answered(s *standing, n int) (list []*reminderv1.ExecuteReminderResponse) {
	h.t.Helper()
	h.until(fmt.Sprintf("there are %d answers", n), func() bool {
		list = slices.Clone(s.answers)
		return len(list) >= n
	})
	return list
}

// called returns what an instance was asked for by a method.
func (i *fakeInstance) called(method string) (list []string) {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	for _, c := range i.calls {
		if m, what, _ := cutSpace(c); m == method {
			list = append(list, what)
		}
	}
	return list
}

func cutSpace(s string) (before, after string, ok bool) {
	for k := range s {
		if s[k] == ' ' {
			return s[:k], s[k+1:], true
		}
	}
	return s, "", false
}

// client returns a client of the fakeService that is ready.
func (h *fakeService) client(target string, change func(*Options)) *Client {
	h.t.Helper()
	c := h.opening(target, change)
	ctx, cancel := context.WithTimeout(h.t.Context(), poll.Patience)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// opening returns a client that is perhaps not ready.
func (h *fakeService) opening(target string, change func(*Options)) *Client {
	h.t.Helper()
	o := Options{App: app, Address: "me", Handle: func(context.Context, Execution) error { return nil }}
	if change != nil {
		change(&o)
	}
	c, err := Open(target, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// sees waits until the client's table has the fakeService's generation, and that many streams are open.
func (h *fakeService) sees(c *Client, streams int) {
	h.t.Helper()
	end := time.After(poll.Patience)
	for {
		h.mu.Lock()
		want := h.generation
		h.mu.Unlock()
		c.mu.Lock()
		stand := 0
		for _, l := range c.links {
			if l.life != nil {
				stand++
			}
		}
		good := c.table != nil && c.table.Generation == want && stand == streams
		changed := c.changed
		c.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-end:
			h.t.Fatalf("the client has %d streams and the table %d, want %d and %d", stand, c.Table().Generation, streams, want)
		}
	}
}

var errBad = errors.New("bad")
