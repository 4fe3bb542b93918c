package sink

// Tracked returns the number of circuits, closed ones included.
func (b *Breaker) Tracked() int { return int(b.tracked.Load()) }
