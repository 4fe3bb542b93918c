package timers

import "sync"

// parallelEdits is how many edits of one call are made at a time: their writes share commits.
const parallelEdits = 64

// inParallel calls do for each place up to n, several at a time, and returns when all have returned.
func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, parallelEdits)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			do(i)
		})
	}
	all.Wait()
}
