package held

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesAreCounted(t *testing.T) {
	s := New[int, string](3)
	if n := s.Reserve(t.Context(), 2); n != 2 {
		t.Fatalf("%d of 3 places were reserved, want 2", n)
	}
	if n := s.Reserve(t.Context(), 5); n != 1 {
		t.Errorf("%d places were left, want 1", n)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if n := s.Reserve(over, 1); n != 0 {
		t.Errorf("%d places more than there are", n)
	}
	if !s.Put(1, "a") || s.Put(1, "b") {
		t.Error("a key can be there once")
	}
	if n := s.Reserve(over, 5); n != 1 {
		t.Errorf("the place of the second is not free again: %d", n)
	}
	if !s.Has(1) || s.Has(2) || len(s.All()) != 1 || s.All()[0] != "a" {
		t.Errorf("the set has %v", s.All())
	}
	if !s.Remove(1) || s.Remove(1) {
		t.Error("a key can be removed once")
	}
}

func TestWhoWaitsGoesOnWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[int, int](1)
		s.Reserve(t.Context(), 1)
		s.Put(1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n := s.Reserve(ctx, 1); n != 0 {
			t.Fatal("there was no room")
		}
		if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drained: %v", err)
		}
		got := make(chan int, 3)
		for range 3 {
			go func() { got <- s.Reserve(t.Context(), 1) }()
		}
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(t.Context()) }()
		synctest.Wait()
		if len(got) != 0 || len(drained) != 0 {
			t.Fatal("there was no room")
		}
		s.Remove(1)
		for range 3 {
			if n := <-got; n != 1 {
				t.Fatalf("got %d", n)
			}
			s.Return(1)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}
