package webhook

import (
	"io"
	"net/http"
)

// ReadAnswer reads an answer as exchange does.
func ReadAnswer(body io.ReadCloser, code int, contentType string, limit int) {
	s := Sink{opts: Options{MaxAnswer: limit}}
	s.read(&http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: body})
}

// Rest closes idle connections.
func (s *Sink) Rest() { s.transport.CloseIdleConnections() }
