package batch

// line is where calls wait for room in the queue. It is a linked list of them, so that a call whose context
// ends can be removed from anywhere.
type line[T, R any] struct{ first, last *call[T, R] }

func (l *line[T, R]) appendCall(c *call[T, R]) {
	c.waiting, c.prev = true, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *line[T, R]) removeCall(c *call[T, R]) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.waiting, c.next, c.prev = false, nil, nil
}

// measureChunk measures the next chunk of a call: as much of the rest as one flush may have.
func (w *Writer[T, R]) measureChunk(c *call[T, R]) {
	c.n, c.bytes = min(len(c.rest), w.opts.MaxItems), 0
	if w.opts.MaxBytes <= 0 {
		return
	}
	for i, item := range c.rest[:c.n] {
		size := w.size(item)
		if i > 0 && c.bytes+size > w.opts.MaxBytes {
			c.n = i
			return
		}
		c.bytes += size
	}
}

// acceptChunks moves chunks of a call to the queue while there is room. It reports whether that was all of
// it.
func (w *Writer[T, R]) acceptChunks(c *call[T, R]) bool {
	for w.running && w.queued+c.n <= w.opts.Queue {
		w.queue = append(w.queue, chunk[T, R]{c, c.rest[:c.n], c.bytes})
		w.queued += c.n
		if !c.by.IsZero() {
			if w.patient == 0 || c.by.Before(w.by) {
				w.by = c.by
			}
			w.patient += c.n
		}
		c.open++
		if c.rest = c.rest[c.n:]; len(c.rest) == 0 {
			return true
		}
		w.measureChunk(c)
	}
	return false
}

// admitCalls admits the calls at the head of the line.
func (w *Writer[T, R]) admitCalls() {
	for c := w.line.first; c != nil && w.acceptChunks(c); c = w.line.first {
		w.line.removeCall(c)
	}
}

// withdrawCall takes a call out of the line for the given reason. It reports whether the call has no accepted
// items to wait for.
func (w *Writer[T, R]) withdrawCall(c *call[T, R], why error) bool {
	w.line.removeCall(c)
	c.rest, c.err = nil, why
	return c.open == 0
}
