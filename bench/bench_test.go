package bench

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLagQuantilesAreWithinABucket(t *testing.T) {
	var h lagHistogram
	for i := range 100_000 {
		h.recordLag(time.Duration(i) * 10 * time.Microsecond) // 0 to 1 s
	}
	for q, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond} {
		if got := h.lagQuantile(q); got < want || got > want+want/16 {
			t.Errorf("quantile %v is %v, want %v or a 16th more", q, got, want)
		}
	}
	if h.lagQuantile(1) != h.max {
		t.Errorf("the largest is %v, not %v", h.lagQuantile(1), h.max)
	}
}

func TestBucketsTileTheNumbers(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<20; v++ {
		b := bucketOf(v)
		if b != last && b != last+1 || v > bucketTop(b) || b > 0 && v <= bucketTop(b-1) {
			t.Fatalf("%d is in bucket %d, after %d; its top is %d", v, b, last, bucketTop(b))
		}
		last = b
	}
}

func TestATallySeesWhatIsLostDoubledAndEarly(t *testing.T) {
	tl := newTally(4)
	now := time.UnixMilli(1_000_000)
	tl.recordArrival(0, 1_000_000, now)
	tl.recordArrival(1, 999_990, now)
	tl.recordArrival(1, 999_990, now)
	tl.recordArrival(2, 1_000_001, now)
	var r Result
	tl.writeArrivals(&r, 4)
	if *r.Lost != 1 || *r.Doubled != 1 || *r.Early != 1 || r.Lag.Max != 10 {
		t.Errorf("lost %d doubled %d early %d max %v", *r.Lost, *r.Doubled, *r.Early, r.Lag.Max)
	}
}

// TestScenariosOfTheEmbeddedStore runs the scenarios that restart their server, briefly: what they count is
// judged, how fast it was is not.
func TestScenariosOfTheEmbeddedStore(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pending", "dapr", "reminders"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(within(t), name, Options{Binary: path, Count: 500, Rate: 100, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Timers != 500 || r.RSS == 0 || len(r.Goals) == 0 {
				t.Errorf("%+v", r)
			}
			if name != "reminders" && r.Restart <= 0 {
				t.Error("nothing came after the restart")
			}
			if name == "dapr" && (r.Lost == nil || *r.Lost != 0 || *r.Early != 0 || *r.Doubled != 0 || r.Lag == nil) {
				t.Errorf("at a steady rate: %+v", r)
			}
		})
	}
}

func TestTwoBinariesAreCompared(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compare(within(t), "pipeline", Options{Binary: path, Duration: time.Second}, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Old) != 1 || len(c.New) != 1 {
		t.Fatalf("%d and %d runs, want one each", len(c.Old), len(c.New))
	}
	for _, what := range []string{"service CPU", "lag p99.9", "rate", "of the raw limit"} {
		i := slices.IndexFunc(c.Figures, func(f Compared) bool { return f.What == what })
		if i < 0 || c.Figures[i].Old <= 0 || c.Figures[i].New <= 0 {
			t.Errorf("%s is missing in %+v", what, c.Figures)
		}
	}
}

func TestTheMedianIsTheMiddleOne(t *testing.T) {
	of := []*Result{{Rate: 9}, {Rate: 1}, {Rate: 4}}
	if m := medianFigure(of, func(r *Result) float64 { return r.Rate }); m != 4 {
		t.Errorf("the median is %v, not 4", m)
	}
}

// Profiles are of what is measured, and readable.
func TestServersAreProfiled(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Run(within(t), "create-batch", Options{Binary: path, Duration: time.Second, Profile: dir}); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{"cpu": "samples/count", "allocs": "alloc_space"} {
		out, err := exec.Command("go", "tool", "pprof", "-raw", filepath.Join(dir, "bench-1-"+what+".pprof")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %.300s", what, err, out)
		}
	}
}

func TestNamesCarryTheirNumbers(t *testing.T) {
	for _, i := range []int64{0, 1, 1 << 40} {
		if n, ok := parseTimerNumber(benchTimerName(i)); !ok || n != i {
			t.Errorf("%d comes back as %d", i, n)
		}
	}
	for _, bad := range []string{"", "t", "x1", "t1x"} {
		if _, ok := parseTimerNumber(bad); ok {
			t.Errorf("%q is no name of ours", bad)
		}
	}
}
