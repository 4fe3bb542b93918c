package pool

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Sparse limits log lines that could be as frequent as requests: it writes at most mostLines a second and
// counts the dropped ones.
type Sparse struct {
	mu     sync.Mutex
	second time.Time
	lines  int
	left   int
}

// mostLines is the maximum number of lines per second.
const mostLines = 10

// Warn writes a warning, or counts it as dropped.
func (s *Sparse) Warn(log *slog.Logger, text string, args ...any) {
	s.Write(log, slog.LevelWarn, text, args...)
}

// Write writes a line, or counts it as dropped.
func (s *Sparse) Write(log *slog.Logger, level slog.Level, text string, args ...any) {
	s.mu.Lock()
	now, left := time.Now(), 0
	if now.Sub(s.second) >= time.Second {
		left = s.left
		s.second, s.lines, s.left = now, 0, 0
	}
	s.lines++
	over := s.lines > mostLines
	if over {
		s.left++
	}
	s.mu.Unlock()
	if left > 0 {
		log.Warn("similar log lines were dropped", "lines", left)
	}
	if !over {
		log.Log(context.Background(), level, text, args...)
	}
}
