package wheel

// entry is 32 bytes and has no pointers.
type entry struct {
	at         uint64 // a tick
	value      uint64
	seq        uint64 // of its insertion; 0 if the entry is free
	next, prev uint32 // in its list; free entries use next only
}

// list is a doubly linked list of entries. Index 0 is no entry.
type list struct{ head, tail uint32 }

func (l *list) pushEntry(s *slab, i uint32, e *entry) {
	e.next, e.prev = 0, l.tail
	if l.tail == 0 {
		l.head = i
	} else {
		s.entryAt(l.tail).next = i
	}
	l.tail = i
}

func (l *list) unlinkEntry(s *slab, e *entry) {
	if e.prev == 0 {
		l.head = e.next
	} else {
		s.entryAt(e.prev).next = e.next
	}
	if e.next == 0 {
		l.tail = e.prev
	} else {
		s.entryAt(e.next).prev = e.prev
	}
}

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits // entries, of 128 KiB together
)

// slab is where entries live. An index is the chunk's number and a place in it. It never moves an entry, so
// growing costs no copy and no second table next to the first.
type slab struct {
	chunks []chunk // number 0 stays empty, so that index 0 is no entry
	room   uint32  // first of the chunks that have free entries, linked by chunk.next; 0 if there is none
	absent uint32  // first of the numbers without a chunk, linked in the same way
	spare  *[chunkSize]entry
}

// chunk is a block of entries. It is linked with others while it has free entries.
type chunk struct {
	entries    *[chunkSize]entry
	next, prev uint32
	live       uint32 // entries in use
	fresh      uint32 // entries from here on were never used
	free       uint32 // first of the used ones that are free again, as an index
}

// entryAt returns the entry of an index that is in use.
func (s *slab) entryAt(i uint32) *entry {
	return &s.chunks[i>>chunkBits].entries[i%chunkSize]
}

// findEntry returns the entry of any index, nil if its chunk is gone.
func (s *slab) findEntry(i uint32) *entry {
	if c := int(i >> chunkBits); c < len(s.chunks) && s.chunks[c].entries != nil {
		return &s.chunks[c].entries[i%chunkSize]
	}
	return nil
}

// takeFree returns a free entry, which the caller gives a seq.
func (s *slab) takeFree() (uint32, *entry) {
	if s.room == 0 {
		s.addChunk()
	}
	number := s.room
	c := &s.chunks[number]
	var i uint32
	var e *entry
	if c.free != 0 {
		i = c.free
		e = &c.entries[i%chunkSize]
		c.free = e.next
	} else {
		i = number<<chunkBits | c.fresh
		e = &c.entries[c.fresh]
		c.fresh++
	}
	if c.live++; c.live == chunkSize {
		s.unlinkChunk(c)
	}
	return i, e
}

// freeEntry returns an entry that is in no list.
func (s *slab) freeEntry(i uint32, e *entry) {
	number := i >> chunkBits
	c := &s.chunks[number]
	e.seq = 0
	e.next, c.free = c.free, i
	if c.live == chunkSize {
		s.linkChunk(number, c)
	}
	if c.live--; c.live == 0 {
		s.unlinkChunk(c)
		s.spare = c.entries // one is kept, so that a wheel that fills and empties does not allocate each time
		*c = chunk{next: s.absent}
		s.absent = number
	}
}

// addChunk adds a chunk. A chunk that was used before is handed out again from its first entry on: its
// entries' seq is 0.
func (s *slab) addChunk() {
	if len(s.chunks) == 0 {
		s.chunks = make([]chunk, 1)
	}
	number := s.absent
	if number != 0 {
		s.absent = s.chunks[number].next
	} else {
		number = uint32(len(s.chunks))
		if number == 1<<(32-chunkBits) {
			panic("wheel: more than four billion entries")
		}
		s.chunks = append(s.chunks, chunk{})
	}
	c := &s.chunks[number]
	*c = chunk{entries: s.spare}
	if s.spare = nil; c.entries == nil {
		c.entries = new([chunkSize]entry)
	}
	s.linkChunk(number, c)
}

// linkChunk puts a chunk in front of those with free entries.
func (s *slab) linkChunk(number uint32, c *chunk) {
	c.next, c.prev = s.room, 0
	if s.room != 0 {
		s.chunks[s.room].prev = number
	}
	s.room = number
}

func (s *slab) unlinkChunk(c *chunk) {
	if c.prev == 0 {
		s.room = c.next
	} else {
		s.chunks[c.prev].next = c.next
	}
	if c.next != 0 {
		s.chunks[c.next].prev = c.prev
	}
}
