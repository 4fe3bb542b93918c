//go:build unix

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/sink/webhook"
)

// step is one step of the script (clients/conformance).
type step struct {
	Step       string
	Op, In     string
	With       map[string]any
	Want       any
	Error      *struct{ Code, Fields any }
	Keep       map[string]string
	Until      bool
	Fault      fault
	Requests   *int
	HTTP       bool
	LongerThan float64 `json:"longer_than"` // seconds
}

// TestConformanceOfGo executes the script with package client, which speaks gRPC.
func TestConformanceOfGo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../clients/conformance/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	if err := json.Unmarshal(text, &steps); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	c, err := client.Dial(s.proxy.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &runner{stage: s, client: c, kept: map[string]any{"receiver": s.receiver.URL}}
	for i := range steps {
		if steps[i].HTTP {
			continue
		}
		if err := r.step(t.Context(), &steps[i]); err != nil {
			t.Fatalf("step %d, %s: %s %v: %v", i+1, steps[i].Step, steps[i].Op, steps[i].With, err)
		}
	}
}

// runner executes steps with package client.
type runner struct {
	stage  *stage
	client *client.Client
	kept   map[string]any

	handled *handled // set while there is a subscription
}

// handled is what a subscription has come to.
type handled struct {
	mu    sync.Mutex
	names map[string]bool // of the fires whose handlers have begun
	lost  bool
	free  chan struct{} // ends the handlers of fires whose names begin with "slow"
	stop  func() error
}

// subscribe begins a subscription unless there is one, and returns what it has come to.
func (r *runner) subscribe(namespace, channel string) object {
	h := r.handled
	if h == nil {
		h = &handled{names: map[string]bool{}, free: make(chan struct{})}
		r.handled = h
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		h.stop = func() error {
			cancel()
			return <-over
		}
		lost := func(error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.lost = true
		}
		handle := func(_ context.Context, f client.Fire) error {
			h.mu.Lock()
			h.names[f.Name] = true
			h.mu.Unlock()
			if strings.HasPrefix(f.Name, "slow") {
				<-h.free
			}
			return nil
		}
		// Through the proxy, the end of the stream comes only when the client has closed it.
		o := client.SubscribeOptions{Namespace: namespace, Channel: channel, Lost: lost, Drain: 50 * time.Millisecond}
		go func() { over <- r.client.Subscribe(ctx, o, handle) }()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return object{"names": append([]string{}, slices.Sorted(maps.Keys(h.names))...), "lost": h.lost}
}

// unsubscribe ends the subscription and its handlers.
func (r *runner) unsubscribe() error {
	close(r.handled.free)
	return r.handled.stop()
}

// step executes a step, and returns what it does not do as it has to.
func (r *runner) step(ctx context.Context, s *step) error {
	r.stage.begin(s.Fault)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	for {
		got, err := r.call(ctx, s)
		if s.Error != nil {
			return errors.Join(checkError(s, err), r.checkRequests(s))
		}
		if err != nil {
			return fmt.Errorf("it failed: %w", err)
		}
		err = matches(r.replaced(s.Want), got, "result")
		if err != nil && s.Until && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if took := time.Since(began); took.Seconds() < s.LongerThan {
			err = errors.Join(err, fmt.Errorf("it took only %v", took))
		}
		for name, path := range s.Keep {
			r.kept[name] = member(got, path)
		}
		return errors.Join(err, r.checkRequests(s))
	}
}

func (r *runner) checkRequests(s *step) error {
	if made := r.stage.made(); s.Requests != nil && made != *s.Requests {
		return fmt.Errorf("it made %d requests", made)
	}
	return nil
}

func checkError(s *step, err error) error {
	code, fields := "", []any{}
	var invalid *rouse.Invalid
	switch {
	case errors.As(err, &invalid):
		code = "invalid"
		for _, f := range api.FaultsOf(invalid) {
			fields = append(fields, f.Field)
		}
		slices.SortFunc(fields, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	case errors.Is(err, rouse.ErrExists):
		code = "already_exists"
	case errors.Is(err, rouse.ErrNotFound):
		code = "not_found"
	case errors.Is(err, rouse.ErrConflict):
		code = "conflict"
	case errors.Is(err, rouse.ErrUnavailable), errors.Is(err, io.ErrUnexpectedEOF):
		code = "no_answer"
	case errors.Is(err, webhook.ErrSignature), errors.Is(err, webhook.ErrTimestamp):
		code = "signature"
	case errors.Is(err, rouse.ErrUnauthenticated), errors.Is(err, rouse.ErrForbidden),
		errors.Is(err, rousev1.ErrUnimplemented):
		code = status.Code(err).String()
	case status.Code(err) == codes.Unknown, errors.Is(err, rousev1.ErrUnexpectedAnswer):
		code = "unexpected"
	}
	if code != s.Error.Code || s.Error.Fields != nil && !reflect.DeepEqual(s.Error.Fields, any(fields)) {
		return fmt.Errorf("the error is %q %v: %w", code, fields, err)
	}
	return nil
}

// replaced returns a value with what was kept in place of its names.
func (r *runner) replaced(v any) any {
	switch v := v.(type) {
	case string:
		if name, begins := strings.CutPrefix(v, "$"); begins {
			name, rest, more := strings.Cut(name, "/")
			if more {
				return fmt.Sprintf("%v/%s", r.kept[name], rest)
			}
			return r.kept[name]
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.replaced(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name := range v {
			out[name] = r.replaced(v[name])
		}
		return out
	}
	return v
}

// arguments are what an operation is called with.
type arguments struct {
	Name, Prefix, Reason, Action, Keys string
	Channel                            string
	Spec                               api.Spec
	When                               api.When
	Filter                             api.Filter
	Quotas                             api.Quotas
	Limit                              api.Limit
	Patch                              json.RawMessage
	Rules                              []api.NotifyRule
	Timers                             []struct {
		Name string
		Spec api.Spec
	}
	Days                  []api.Day
	Labels, Headers       map[string]string
	States                []string
	Revision              uint64
	Key                   string
	Existing, Reverse     bool
	DryRun                bool   `json:"dry_run"`
	OrderBy               string `json:"order_by"`
	Fire                  string `json:"fire_id"`
	Start                 api.Time
	By                    api.Duration
	Count, Delivery, Late int
	Body                  *string
}

// call calls an operation, and returns its result as JSON.
func (r *runner) call(ctx context.Context, s *step) (any, error) {
	text, err := json.Marshal(r.replaced(s.With))
	if err != nil {
		return nil, err
	}
	var a arguments
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, err
	}
	do := operations[s.Op]
	if do == nil {
		return nil, fmt.Errorf("the runner has no operation %q", s.Op)
	}
	namespace := s.In
	if namespace == "" {
		namespace = "default"
	}
	got, err := do(ctx, r, namespace, &a)
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(got); err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(text, &out)
}

// object is a result.
type object = map[string]any

type operation = func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error)

var operations = map[string]operation{
	"clock": func(ctx context.Context, r *runner, _ string, _ *arguments) (any, error) {
		c, err := r.client.Clock(ctx)
		return object{"virtual": c.Virtual}, err
	},
	"advance_clock": func(ctx context.Context, r *runner, _ string, a *arguments) (any, error) {
		c, err := r.client.AdvanceClock(ctx, client.Advance{By: time.Duration(a.By)})
		return object{"virtual": c.Virtual}, err
	},
	"create": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		spec, err := a.Spec.Parse()
		if err != nil {
			return nil, err
		}
		return timer(r.client.Create(ctx, namespace, a.Name, spec))
	},
	"upsert": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		spec, err := a.Spec.Parse()
		if err != nil {
			return nil, err
		}
		var conditions []client.Condition
		if a.Revision != 0 {
			conditions = append(conditions, client.IfRevision(a.Revision))
		}
		if a.Existing {
			conditions = append(conditions, client.IfExists())
		}
		if a.Key != "" {
			ctx = client.WithIdempotencyKey(ctx, a.Key)
		}
		return timer(r.client.CreateOrReplace(ctx, namespace, a.Name, spec, conditions...))
	},
	"patch": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		var conditions []client.Condition
		if a.Revision != 0 {
			conditions = append(conditions, client.IfRevision(a.Revision))
		}
		if a.Key != "" {
			ctx = client.WithIdempotencyKey(ctx, a.Key)
		}
		t, err := r.client.Patch(ctx, namespace, a.Name, string(a.Patch), conditions...)
		return timer(t.Timer, err)
	},
	"badge": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		b, err := r.client.Badge(ctx, namespace, a.Name)
		return object{"state": b.State, "path": b.Path}, err
	},
	"put_notify": func(ctx context.Context, r *runner, _ string, a *arguments) (any, error) {
		rules := make([]rouse.NotifyRule, len(a.Rules))
		for i := range rules {
			rules[i] = a.Rules[i].Words()
		}
		n, err := r.client.Namespaces().PutNotify(ctx, a.Name, rules, a.Revision)
		return api.NamespaceOf(&n), err
	},
	"get_namespace": func(ctx context.Context, r *runner, _ string, a *arguments) (any, error) {
		n, _, err := r.client.Namespaces().Get(ctx, a.Name)
		return api.NamespaceOf(&n), err
	},
	"create_batch": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		timers := make([]client.NewTimer, len(a.Timers))
		for i := range timers {
			spec, err := a.Timers[i].Spec.Parse()
			if err != nil {
				return nil, err
			}
			timers[i] = client.NewTimer{Name: a.Timers[i].Name, Spec: spec}
		}
		created, err := r.client.BatchCreate(ctx, namespace, client.CreateOnly, timers)
		out := []object{}
		for _, c := range created {
			o := object{"name": c.Name, "due": api.TimeOf(c.Due)}
			if errors.Is(c.Err, rouse.ErrExists) {
				o["problem"] = object{"code": "already_exists"}
			} else if c.Err != nil {
				o["problem"] = object{"code": c.Err.Error()}
			}
			out = append(out, o)
		}
		return out, err
	},
	"get": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return timer(r.client.Get(ctx, namespace, a.Name))
	},
	"list": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return list(r.client.List(ctx, query(namespace, a)), api.TimerOf)
	},
	"dead_letters": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		q := query(namespace, a)
		q.States = []rouse.State{rouse.StateDead}
		return list(r.client.List(ctx, q), api.TimerOf)
	},
	"records": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return list(r.client.Records(ctx, namespace, a.Name), api.RecordOf)
	},
	"count": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		n, err := r.client.Count(ctx, query(namespace, a))
		return object{"count": n}, err
	},
	"pause": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return timer(r.client.Pause(ctx, namespace, a.Name, a.Reason))
	},
	"resume": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return timer(r.client.Resume(ctx, namespace, a.Name))
	},
	"skip": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return timer(r.client.Skip(ctx, namespace, a.Name, uint32(a.Count), a.Reason))
	},
	"run": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		id, _, err := r.client.Run(ctx, namespace, a.Name)
		return object{"fire_id": id}, err
	},
	"reschedule": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		when, err := a.When.Parse()
		if err != nil {
			return nil, err
		}
		t, err := r.client.Reschedule(ctx, namespace, a.Name, when)
		return timer(t.Timer, err)
	},
	"delete": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		d, err := r.client.Delete(ctx, namespace, a.Name)
		return object{"in_flight": d.InFlight, "generation": d.Generation}, err
	},
	"explain": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		e, err := r.client.Explain(ctx, namespace, a.Name, 0)
		reasons := []object{}
		for _, reason := range e.Reasons {
			reasons = append(reasons, object{"code": reason.Code})
		}
		return object{"summary": e.Summary, "reasons": reasons}, err
	},
	"preview": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		when, err := a.When.Parse()
		if err != nil {
			return nil, err
		}
		p, err := r.client.Preview(ctx, client.PreviewRequest{Spec: when, Namespace: namespace, After: a.Start.Instant(), Count: a.Count})
		next := []api.Time{}
		for _, n := range p.Next {
			next = append(next, api.TimeOf(n.Due))
		}
		return object{"next": next, "words": p.Words}, err
	},
	"bulk": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		q, err := a.Filter.Parse()
		if err != nil {
			return nil, err
		}
		q.Namespace = namespace
		p, err := r.client.Bulk(ctx, client.BulkRequest{Query: q, Action: client.Action(a.Action), DryRun: a.DryRun}, nil)
		return object{"matched": p.Matched, "changed": p.Changed, "failed": p.Failed, "names": p.Names}, err
	},
	"put_calendar": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		days, err := (&api.PutCalendar{Days: a.Days}).Parse()
		if err != nil {
			return nil, err
		}
		c, err := r.client.PutCalendar(ctx, namespace, a.Name, days)
		return object{"days": c.Days, "moved": c.Moved}, err
	},
	"calendar": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		c, err := r.client.Calendar(ctx, namespace, a.Name)
		return api.CalendarOf(&c), err
	},
	"delete_calendar": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return object{}, r.client.DeleteCalendar(ctx, namespace, a.Name)
	},
	"put_limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		want := a.Limit.Parse()
		want.Namespace, want.Name = namespace, a.Name
		l, err := r.client.Limits().Put(ctx, want)
		return api.LimitOf(&l), err
	},
	"limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		l, _, err := r.client.Limits().Get(ctx, namespace, a.Name)
		return api.LimitOf(&l), err
	},
	"limits": func(ctx context.Context, r *runner, namespace string, _ *arguments) (any, error) {
		list, err := r.client.Limits().List(ctx, namespace)
		forms := make([]api.Limit, len(list.Limits))
		for i := range list.Limits {
			forms[i] = api.LimitOf(&list.Limits[i])
		}
		return forms, err
	},
	"pause_limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		l, err := r.client.Limits().Pause(ctx, namespace, a.Name)
		return api.LimitOf(&l), err
	},
	"resume_limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		l, err := r.client.Limits().Resume(ctx, namespace, a.Name)
		return api.LimitOf(&l), err
	},
	"reset_limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		l, err := r.client.Limits().Reset(ctx, namespace, a.Name)
		return api.LimitOf(&l), err
	},
	"delete_limit": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return object{}, r.client.Limits().Delete(ctx, namespace, a.Name)
	},
	"redrive": func(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
		_, err := r.client.Redrive(ctx, namespace, a.Name, a.Fire, false)
		return object{}, err
	},
	"put_namespace": func(ctx context.Context, r *runner, _ string, a *arguments) (any, error) {
		n, err := r.client.Namespaces().Put(ctx, a.Name, a.Quotas.Words())
		return api.NamespaceOf(&n), err
	},
	"deliveries": func(ctx context.Context, r *runner, _ string, a *arguments) (any, error) {
		return r.stage.deliveries(ctx, a.Count)
	},
	"subscribe": func(_ context.Context, r *runner, namespace string, a *arguments) (any, error) {
		return r.subscribe(namespace, a.Channel), nil
	},
	"unsubscribe": func(_ context.Context, r *runner, _ string, _ *arguments) (any, error) {
		return object{}, r.unsubscribe()
	},
	"verify": verify,
}

// verify returns the identity of a callback.
func verify(ctx context.Context, r *runner, namespace string, a *arguments) (any, error) {
	list, err := r.stage.deliveries(ctx, a.Delivery+1)
	if err != nil {
		return nil, err
	}
	d, header := list[a.Delivery], http.Header{}
	for _, from := range []map[string]string{d.Headers, a.Headers} {
		for name, value := range from {
			header.Set(name, value)
		}
	}
	keys := []string{"whsec_" + strings.Repeat("A", 32)}
	if a.Keys != "other" {
		revealed, err := r.client.Secrets().RevealSigningKeys(ctx, namespace)
		if err != nil {
			return nil, err
		}
		keys = nil
		for _, k := range revealed {
			keys = append(keys, map[string]string{"secret": k.Secret, "public": k.Public}[a.Keys])
		}
	}
	body := d.Body
	if a.Body != nil {
		body = *a.Body
	}
	sent, err := strconv.ParseInt(header.Get(webhook.HeaderTimestamp), 10, 64)
	if err != nil {
		return nil, err
	}
	id, err := webhook.VerifyIdentity(keys, header, []byte(body), time.Unix(sent+int64(a.Late), 0))
	return object{"namespace": id.Namespace, "timer": id.Timer, "fire_id": id.FireID, "attempt": id.Attempt, "manual": id.Manual}, err
}

func timer(t rouse.Timer, err error) (any, error) { return api.TimerOf(&t), err }

// list returns all of a list in the form of the API.
func list[T, J any](rows iter.Seq2[T, error], form func(*T) J) (any, error) {
	out := []J{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		out = append(out, form(&row))
	}
	return out, nil
}

func query(namespace string, a *arguments) rouse.Query {
	q := rouse.Query{Namespace: namespace, Prefix: a.Prefix, Labels: maps.Clone(a.Labels), Reverse: a.Reverse}
	for _, name := range a.States {
		state, _ := rouse.ParseState(name)
		q.States = append(q.States, state)
	}
	q.Order, _ = rouse.ParseOrder(a.OrderBy)
	return q
}

// member returns a member of a result by its path.
func member(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, _ := strconv.Atoi(part)
			v = at[i]
		}
	}
	return v
}

// matches returns how a result differs from what is wanted.
func matches(want, got any, where string) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v", where, got)
		}
		for name, value := range w {
			v, given := g[name]
			list, isList := value.([]any)
			if empty := value == false || value == 0.0 || isList && len(list) == 0; empty && !given {
				continue
			}
			if err := matches(value, v, where+"."+name); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s is %v", where, got)
		}
		more := len(w) > 0 && w[len(w)-1] == "…"
		if more {
			w = w[:len(w)-1]
		}
		if len(g) < len(w) || !more && len(g) != len(w) {
			return fmt.Errorf("%s has %d elements: %v", where, len(g), g)
		}
		for i := range w {
			if err := matches(w[i], g[i], fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
		return nil
	case string:
		a, err1 := time.Parse(time.RFC3339Nano, w)
		b, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(got))
		if w == "*" && got != nil || err1 == nil && err2 == nil && a.Equal(b) {
			return nil
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %v, not %v", where, got, want)
	}
	return nil
}
