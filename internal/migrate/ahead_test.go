package migrate

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestPagesAreReadInTheirOrder(t *testing.T) {
	n := 0
	a := readAhead(t.Context(), func(context.Context) ([]int, bool, error) {
		n++
		return []int{n * 2, n*2 + 1}[:n%3], n < 8, nil // every third page is empty
	})
	defer a.stopReading()
	var got []int
	for {
		v, err := a.peekItem()
		if err != nil {
			t.Fatal(err)
		}
		if v == nil {
			break
		}
		got = append(got, *v)
		a.advanceItem()
	}
	if want := []int{2, 4, 5, 8, 10, 11, 14, 16, 17}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAFaultIsToldBehindWhatCameBefore(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	a := readAhead(t.Context(), func(context.Context) ([]int, bool, error) {
		if n++; n == 2 {
			return nil, false, broken
		}
		return []int{n}, true, nil
	})
	defer a.stopReading()
	if v, err := a.peekItem(); err != nil || *v != 1 {
		t.Fatal(v, err)
	}
	a.advanceItem()
	for range 2 {
		if v, err := a.peekItem(); v != nil || !errors.Is(err, broken) {
			t.Fatal(v, err)
		}
	}
}

// TestWhatIsCutShortIsNoEnd: a cancelled list must not count as complete, because the remaining rows would be
// removed from the target.
func TestWhatIsCutShortIsNoEnd(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		a := readAhead(ctx, func(context.Context) ([]int, bool, error) {
			if n++; n == 3 {
				cancel()
			}
			return []int{n}, true, nil
		})
		for {
			v, err := a.peekItem()
			if errors.Is(err, context.Canceled) {
				break
			}
			if v == nil || err != nil {
				t.Fatal(v, err)
			}
			a.advanceItem()
		}
		a.stopReading()
	}
}
