package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// once makes a call that is not tried again.
func once[T any](call func() (T, error)) (T, error) {
	v, err := call()
	return v, translate(err)
}

// again makes a call that may be made twice, for as long as it seems worth it. call is told whether an earlier try may have
// had its effect.
func again[T any](ctx context.Context, patience time.Duration, call func(unsure bool) (T, error)) (T, error) {
	end := time.Now().Add(patience)
	unsure := false
	for pause := newPause(50*time.Millisecond, 5*time.Second); ; {
		v, err := call(unsure)
		if err == nil {
			return v, nil
		}
		err = translate(err)
		wait, worth := pause.after(err)
		if !worth || time.Now().Add(wait).After(end) || !sleep(ctx, wait) {
			return v, err
		}
		unsure = unsure || !errors.Is(err, rouse.ErrOverloaded)
	}
}

// pause grows from call to call, with a random part so that clients do not come back together.
type pause struct{ first, next, most time.Duration }

func newPause(first, most time.Duration) pause { return pause{first, first, most} }

// after returns how long to wait after an error, and whether it is worth it.
func (p *pause) after(err error) (time.Duration, bool) {
	if !errors.Is(err, rouse.ErrUnavailable) && !errors.Is(err, rouse.ErrOverloaded) && !errors.Is(err, rouse.ErrClosed) {
		return 0, false
	}
	wait := p.grow()
	var told *rouse.RetryAfter
	if errors.As(err, &told) {
		wait = max(wait, told.After)
	}
	return wait, true
}

func (p *pause) grow() time.Duration {
	d := p.next/2 + rand.N(p.next/2+1)
	p.next = min(2*p.next, p.most)
	return d
}

func (p *pause) reset() { p.next = p.first }

// bound lets the pause grow to another length from here on.
func (p *pause) bound(most time.Duration) { p.next, p.most = min(p.next, most), most }

// sleep waits for d; it is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// translate turns an error of gRPC into one of package rouse.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return rousev1.StatusToError(st)
	}
	return err
}
