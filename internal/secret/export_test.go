package secret

// Cached returns how many namespaces have their signing keys in memory.
func (s *Secrets) Cached() int { return len(s.cache.sets) }
