package bench

import (
	"math"
	"os"
	"testing"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// TestFitFindsTheCosts has measurements of known costs, exact and with errors of 5 %.
func TestFitFindsTheCosts(t *testing.T) {
	for _, want := range []Cost{{Moment: 9, Message: 30, Fire: 12, KiB: 2}, {Fire: 12}, {Moment: 5, Fire: 7, KiB: 900}} {
		for _, wrong := range []float64{0, .05} {
			measured := make([]float64, len(learned))
			for i, l := range learned {
				measured[i] = want.Of(l) * (1 + wrong*float64(1-i%2*2))
			}
			got := fitCost(learned, measured)
			for _, l := range judged {
				if off := got.Of(l)/want.Of(l) - 1; math.Abs(off) > wrong*2+1e-6 {
					t.Errorf("%+v of %+v, errors of %v: wrong by %.3f", l, want, wrong, off)
				}
			}
			if got.Moment < 0 || got.Message < 0 || got.Fire < 0 || got.KiB < 0 {
				t.Errorf("negative costs: %+v", got)
			}
		}
	}
}

// TestFiguresAreWhatTheyClaim burns CPU in this process, which the service's figure must not contain, and
// creates timers with payloads of a known size, which disk and network must have carried.
func TestFiguresAreWhatTheyClaim(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	target, err := openTarget(ctx, Options{Binary: path}.withScenarioDefaults(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer target.closeTarget()
	const burn, n, size = 300 * time.Millisecond, 300, 20_000
	m := target.startMeter(ctx)
	began := processUsage(os.Getpid()).cpu
	for processUsage(os.Getpid()).cpu-began < burn {
	}
	burnt := &Result{}
	m.writeUsage(burnt, 1)
	if own, service := burnt.BenchCPU, burnt.ServiceCPU; own < float64(burn.Microseconds()) || service > own/2 {
		t.Errorf("%v burnt here: %.0f µs here, %.0f µs in the service", burn, own, service)
	}
	m = target.startMeter(ctx)
	body := newPayloads(size)
	if _, err := createMany(ctx, target, 1, 0, n, func(i int64) *rousev1.Spec {
		return &rousev1.Spec{Schedule: oneShotSchedule(farDueTime(i)), Target: "stream:bench", Payload: body(i)}
	}); err != nil {
		t.Fatal(err)
	}
	r := &Result{}
	m.writeUsage(r, n)
	if r.Traffic < size || r.Traffic > 1.1*size || r.Disk < size/2 || r.Disk > 10*size || r.RSS < target.serversUsage().rss/2 || r.ServiceCPU <= 0 {
		t.Errorf("payloads of %d bytes: %+v", size, r)
	}
}
