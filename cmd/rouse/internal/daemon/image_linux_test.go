package daemon

import (
	"slices"
	"testing"
)

// TestTrimImageKeepsTheProgram: the text of the program is given back, what the linker wrote is not, and the
// program goes on.
func TestTrimImageKeepsTheProgram(t *testing.T) {
	list := imageMappings()
	if len(list) == 0 {
		t.Fatal("the file of the program is not found in memory")
	}
	trimImage()
	if usedTime() == 0 {
		t.Error("the process has used no time")
	}
	if again := imageMappings(); !slices.Equal(list, again) {
		t.Errorf("the file was mapped at %v, and is at %v", list, again)
	}
}
