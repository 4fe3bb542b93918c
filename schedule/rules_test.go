package schedule

import "testing"

func BenchmarkRules(b *testing.B) {
	for b.Loop() {
		Rules()
	}
}
