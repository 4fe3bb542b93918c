package poll

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		if !Holds(time.Second, func() bool { looks++; return looks == 3 }) || time.Since(began) != 10*time.Millisecond {
			t.Errorf("%d looks in %v", looks, time.Since(began))
		}
		if Holds(time.Second, func() bool { return false }) || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("it holds, or was given up only after %v", time.Since(began))
		}
	})
}
