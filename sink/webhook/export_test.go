package webhook

import (
	"io"
	"net/http"
)

// ReadAnswer reads an answer as exchange does.
func ReadAnswer(body io.ReadCloser, code int, contentType string, limit int) {
	s := Sink{opts: Options{MaxAnswer: limit}}
	new(answer).readResponse(&s.opts, &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: body})
}

// Rest closes idle connections.
func (s *Sink) Rest() { s.idle.closeIdle() }

// Idle returns the number of idle connections.
func (s *Sink) Idle() int {
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	return s.idle.all.Len()
}
