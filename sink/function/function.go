// Package function is the sink of the targets "func:NAME": it calls functions of this process. Programs
// usually register them with node.Handle.
//
//	s := function.New(function.Options{})
//	err := s.Handle("send-invoice", func(ctx context.Context, f rouse.Fire) error { return send(ctx, f.Spec.Payload) })
//
// It promises:
//   - The function's result is the outcome: nil is done, an error is a failure that is retried; Permanent,
//     RetryAfter and ErrGone refine that. A panic, and the end of the goroutine, are failures, too, and the
//     process continues.
//   - The function's ctx is cancelled after the attempt's timeout (retry.timeout), and when the engine
//     stops. If the function does not return soon after that, its attempt fails, and the call counts
//     against the limit until it returns.
//   - At most a limited number of calls of one function run at a time, in all namespaces together.
//   - A fire of a function that is not registered is deferred, and spends no attempt: another version of
//     the program may have the function.
//
// A function may be called twice for one occurrence, such as after a crash, with the same fire ID. As a
// function can end its process, its lane asks the engine to store an attempt before it begins: a fire that
// ends the process each time becomes a dead letter.
package function

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Handler is the function of a timer. Its ctx ends with the attempt's timeout and when the engine stops. It
// is called concurrently, and must not change the fire's Spec.
type Handler func(ctx context.Context, f rouse.Fire) error

const (
	scheme = "func:"

	// MaxName bounds the name of a function, in bytes.
	MaxName = 128
)

// Options configure a sink. Zero fields have the defaults that their comments name.
type Options struct {
	Concurrency int           // calls of one function at a time, unless Handle sets it; default four for each processor
	Wait        time.Duration // how long a fire waits for a place before it is deferred; default 2 s
	Linger      time.Duration // how long a function has to end once its ctx has ended; default 1 s

	// Now is the store's clock: the later a fire without a function is, the longer it is deferred. Default
	// the machine's.
	Now func() rouse.Instant

	// Panicked is called with the value and the stack of a function's panic; may be nil.
	Panicked func(f rouse.Fire, value any, stack []byte)
}

func (o Options) withDefaults() Options {
	if o.Concurrency <= 0 {
		o.Concurrency = 4 * runtime.GOMAXPROCS(0)
	}
	o.Wait = cmp.Or(max(o.Wait, 0), 2*time.Second)
	o.Linger = cmp.Or(max(o.Linger, 0), time.Second)
	if o.Now == nil {
		o.Now = func() rouse.Instant { return rouse.Reached(time.Now()) }
	}
	if o.Panicked == nil {
		o.Panicked = func(rouse.Fire, any, []byte) {}
	}
	return o
}

// Sink is safe for concurrent use.
type Sink struct {
	opts Options

	mu        sync.RWMutex
	functions map[string]*registered // by target
}

// registered is a registered function.
type registered struct {
	target string
	call   Handler
	places chan struct{} // one for each concurrent call
}

// New returns a sink without functions.
func New(o Options) *Sink {
	return &Sink{opts: o.withDefaults(), functions: map[string]*registered{}}
}

// Option tunes one function.
type Option func(*settings)

type settings struct{ concurrency int }

// Concurrency allows up to n concurrent calls of the function; at least 1.
func Concurrency(n int) Option {
	return func(s *settings) { s.concurrency = n }
}

// Handle registers the function for fires with the target "func:NAME". It may be called while the engine
// runs. A name has 1 to MaxName letters, digits, '.', '-', '_' and '/'. An existing name is refused with
// rouse.ErrExists.
func (s *Sink) Handle(name string, fn Handler, opts ...Option) error {
	if err := checkName("name", name, name); err != nil {
		return err
	}
	if fn == nil {
		return rouse.Refuse("function", "", "is nil", "give one to call")
	}
	set := settings{concurrency: s.opts.Concurrency}
	for _, o := range opts {
		o(&set)
	}
	if set.concurrency < 1 {
		return rouse.Refuse("concurrency", fmt.Sprint(set.concurrency), "is less than 1", "let at least one call run")
	}
	f := &registered{target: scheme + name, call: fn, places: make(chan struct{}, set.concurrency)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.functions[f.target] != nil {
		return fmt.Errorf("function %q: %w", name, rouse.ErrExists)
	}
	s.functions[f.target] = f
	return nil
}

// Obstacle reports that no function is registered for the spec's target, or that all its places are taken.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	switch f := s.findFunction(spec.Target); {
	case f == nil:
		return printableDetail(unregistered + spec.Target)
	case len(f.places) == cap(f.places):
		return fmt.Sprintf("all %d calls of the function that may run at a time are running", cap(f.places))
	}
	return ""
}

const unregistered = "no function is registered here for "

func (s *Sink) findFunction(target string) *registered {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.functions[target]
}

// Check refuses other targets, invalid names, and options of webhooks. A function that is not registered is
// no error of the timer.
func (s *Sink) Check(spec *rouse.Spec) error {
	name, ok := strings.CutPrefix(spec.Target, scheme)
	if !ok {
		return rouse.Refuse("target", spec.Target, "is no function target", "use func:NAME")
	}
	if err := checkName("target", spec.Target, name); err != nil {
		return err
	}
	w := &spec.Webhook
	if w.Any() {
		return rouse.Refuse("webhook", "", "has no meaning for a function target",
			"leave it out, or give an http or https target")
	}
	return nil
}

// checkName refuses an invalid name of a function.
func checkName(field, value, name string) error {
	ok := name != "" && len(name) <= MaxName
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".-_/", c) >= 0)
	}
	if !ok {
		return rouse.Refuse(field, value, "names no function",
			fmt.Sprintf("use 1 to %d letters, digits, '.', '-', '_' and '/'", MaxName))
	}
	return nil
}

// unknownLimit is how many fires of unregistered functions are handled at the same time.
const unknownLimit = 256

// Lane returns a lane for each function. Fires are delivered one at a time, so that each attempt is written
// separately.
func (s *Sink) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	if f := s.findFunction(spec.Target); f != nil {
		return rouse.Lane{Name: f.target, Limit: cap(f.places), Batch: 1, Spend: true}
	}
	// Clone the target: it may be a part of a timer's row, which it would keep in memory. Nothing is
	// called, so no attempt is spent.
	return rouse.Lane{Name: strings.Clone(spec.Target), Limit: unknownLimit, Batch: 1}
}
