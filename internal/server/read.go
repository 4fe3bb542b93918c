package server

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse"
)

const (
	defaultPage = 100
	maxPage     = 1000

	// A page of timers is read in chunks and ends early at pageBytes: gRPC clients accept 4 MiB by default,
	// and a thousand of the largest timers would take a quarter of a gigabyte. The first chunk is small
	// because a few large timers may fill the page.
	firstChunk = 20
	pageChunk  = 100
	pageBytes  = 2 << 20
)

func pageSize(asked uint32) (int, error) {
	switch {
	case asked == 0:
		return defaultPage, nil
	case asked > maxPage:
		return 0, rouse.Refuse("page_size", strconv.FormatUint(uint64(asked), 10), "is too large", fmt.Sprintf("give 1 to %d", maxPage))
	}
	return int(asked), nil
}

// list returns a page of matching timers and the token of the next page.
func (s *service) list(ctx context.Context, q rouse.Query, asked uint32, token string) ([]rouse.Timer, string, error) {
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	if q.After, err = keyOf(token, &q); err != nil {
		return nil, "", err
	}
	if !s.reads.TryAcquire(1) {
		return nil, "", overloaded("reads")
	}
	defer s.reads.Release(1)

	var page []rouse.Timer
	bytes := 0
	for calls, chunk := 0, firstChunk; ; calls, chunk = calls+1, pageChunk {
		q.Limit = min(chunk, size-len(page))
		timers, next, err := s.timers.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range timers {
			page = append(page, timers[i])
			if bytes += weigh(&timers[i]); bytes >= pageBytes && (i < len(timers)-1 || next != nil) {
				return page, keyToken(timers[i].Key, &q), nil
			}
		}
		switch {
		case next == nil:
			return page, "", nil
		case len(page) >= size, calls >= maxPage/pageChunk: // the store scanned many rows and found few
			return page, keyToken(*next, &q), nil
		}
		q.After = *next
	}
}

// weigh returns about how many bytes a timer has on the wire.
func weigh(t *rouse.Timer) int {
	n := 256 + len(t.Key.Name) + len(t.Spec.Payload) + len(t.Spec.Target) + len(t.Spec.Schedule) + len(t.Reason) + len(t.LastError)
	if t.Answer != nil {
		n += len(t.Answer.Payload)
	}
	for _, list := range [...][]string{t.Spec.Also, t.Spec.Except, t.Spec.Calendar.Off, t.Spec.Calendar.Only} {
		for _, s := range list {
			n += len(s) + 8
		}
	}
	for _, a := range t.Failures {
		n += len(a.Detail) + 32
	}
	for k, v := range t.Spec.Labels {
		n += len(k) + len(v) + 8
	}
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 8
	}
	return n
}

func (s *service) count(ctx context.Context, q rouse.Query) (int64, error) {
	if !s.reads.TryAcquire(1) {
		return 0, overloaded("reads")
	}
	defer s.reads.Release(1)
	return s.timers.Count(ctx, q)
}

// records returns a page of a history, newest first, and the token of the next page.
func (s *service) records(ctx context.Context, namespace, name string, asked uint32, token string) ([]rouse.Record, string, error) {
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	q := rouse.RecordQuery{Namespace: namespace, Name: name, Limit: size}
	if q.Until, err = cursorOf(token, &q); err != nil {
		return nil, "", err
	}
	if !s.reads.TryAcquire(1) {
		return nil, "", overloaded("reads")
	}
	defer s.reads.Release(1)
	page, err := s.timers.Records(ctx, q)
	if err != nil || page.Next == nil {
		return page.Records, "", err
	}
	return page.Records, cursorToken(*page.Next, &q), nil
}

// following calls f with the records of a namespace, or of one timer, as occurrences end, until ctx ends,
// the server drains, or f fails. It calls begin once the request can no longer be refused.
func (s *service) following(ctx context.Context, namespace, name string, begin func() error, f func(records []rouse.Record, dropped uint64) error) error {
	if err := (&rouse.RecordQuery{Namespace: namespace, Name: name}).Check(); err != nil {
		return err
	}
	if !s.follow.TryAcquire(1) {
		return overloaded("followers")
	}
	defer s.follow.Release(1)
	if err := begin(); err != nil {
		return err
	}
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	err := s.timers.Follow(ctx, func(records []rouse.Record, dropped uint64) error {
		var mine []rouse.Record
		for i := range records {
			if records[i].Namespace == namespace && (name == "" || records[i].Name == name) {
				mine = append(mine, records[i])
			}
		}
		if len(mine) == 0 && dropped == 0 {
			return nil
		}
		return f(mine, dropped)
	})
	return s.ended(err)
}
