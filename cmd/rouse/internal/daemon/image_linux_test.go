package daemon

import (
	"os"
	"slices"
	"testing"
)

// TestTrimNowKeepsTheProgram: the text of the program is given back, what the linker wrote is not, and the
// program goes on.
func TestTrimNowKeepsTheProgram(t *testing.T) {
	list := imageMappings()
	if len(list) == 0 {
		t.Fatal("the file of the program is not found in memory")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	trimNow()
	if again, err := os.ReadFile("/proc/self/maps"); err != nil || len(again) == 0 || len(maps) == 0 {
		t.Errorf("after that, maps has %d bytes, %v", len(again), err)
	}
	if again := imageMappings(); !slices.Equal(list, again) {
		t.Errorf("the file was mapped at %v, and is at %v", list, again)
	}
}
