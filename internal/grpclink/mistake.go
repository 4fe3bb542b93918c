package grpclink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
)

// Texts in the errors of connections if the client was given the wrong address or the wrong way to connect.
// They are parts of a text, because gRPC keeps nothing else of an error.
const (
	NeedsTLS  = "speaks TLS: use https://"
	LacksTLS  = "does not speak TLS: use http://"
	LacksGRPC = "does not answer in gRPC: use the port of the API"
	Untrusted = "has a certificate that this client does not trust: name the authority that signed it"
)

// diagnosing are credentials whose connections return errors that name such a mistake.
type diagnosing struct {
	credentials.TransportCredentials
}

// ClientHandshake makes a connection, and explains why it cannot be made.
func (d diagnosing) ClientHandshake(ctx context.Context, authority string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	made, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		return nil, nil, diagnoseHandshake(authority, err)
	}
	return &firstRead{Conn: made, authority: authority}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (d diagnosing) Clone() credentials.TransportCredentials {
	return diagnosing{d.TransportCredentials.Clone()}
}

// diagnoseHandshake returns the error of a TLS handshake, or one that names the mistake.
func diagnoseHandshake(authority string, err error) error {
	switch text := err.Error(); {
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("the server at %s %s%s", authority, LacksTLS, authority)
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("the server at %s %s: %w", authority, Untrusted, err)
	case strings.HasSuffix(text, "no application protocol"), strings.Contains(text, "missing selected ALPN"): // it lacks HTTP/2
		return fmt.Errorf("the server at %s %s", authority, LacksGRPC)
	}
	return err
}

// firstRead looks at the first bytes from a server: the settings with which HTTP/2 has to begin are a small
// frame, and a frame starts with the high byte of its length.
type firstRead struct {
	net.Conn
	authority string
	done      bool // used by the reading goroutine only
}

// Read implements net.Conn.
func (f *firstRead) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.done || n == 0 {
		return n, err
	}
	f.done = true
	switch first := b[:n]; {
	case refusesPlain(first):
		return 0, fmt.Errorf("the server at %s %s%s", f.authority, NeedsTLS, f.authority)
	case first[0] != 0:
		return 0, fmt.Errorf("the server at %s %s", f.authority, LacksGRPC)
	}
	return n, err
}

// refusesPlain reports whether a server answers as those do that expected TLS: with an alert, or with a page
// that asks for it. A redirect to another page proves nothing.
func refusesPlain(first []byte) bool {
	// type, version, length
	if len(first) >= 5 && first[0] == 21 && first[1] == 3 && first[2] <= 4 && first[3] == 0 && first[4] == 2 {
		return true
	}
	head, page, _ := bytes.Cut(bytes.ToLower(first), []byte("\r\n\r\n"))
	status, _, _ := bytes.Cut(head, []byte("\r\n"))
	if !bytes.HasPrefix(status, []byte("http/1.")) || !bytes.Contains(status, []byte(" 400 ")) {
		return false
	}
	page = bytes.ReplaceAll(page, []byte("https://"), nil)
	return bytes.Contains(page, []byte("https")) || bytes.Contains(page, []byte("requires tls"))
}
