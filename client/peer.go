package client

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
)

// peer is a connection to a node that the client has learned of, shared by its subscriptions.
type peer struct {
	conn  *grpc.ClientConn
	users int
}

// acquire returns a connection to a node at an address that the service reported.
func (c *Client) acquire(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[address]
	if p == nil {
		target, plain, err := c.peerAddress(address)
		if err != nil {
			return nil, err
		}
		conn, err := connect(target, plain, c.opts)
		if err != nil {
			return nil, err
		}
		p = &peer{conn: conn}
		c.peers[address] = p
	}
	p.users++
	return p.conn, nil
}

// release gives back what acquire returned; the last one closes it.
func (c *Client) release(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[address]; p != nil {
		if p.users--; p.users == 0 {
			_ = p.conn.Close()
			delete(c.peers, address)
		}
	}
}

// peerAddress returns the gRPC target of a node's address, and whether connections to it are in plain text. A
// reported address is only an address, never a scheme of gRPC's, and never weakens what the caller asked for:
// with TLS, nodes are reached over TLS, and a remote node cannot send the client to this host.
func (c *Client) peerAddress(told string) (target string, plain bool, err error) {
	target, plain, err = address(told, c.opts)
	if err != nil {
		return "", false, err
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return "", false, fmt.Errorf("%q is no host and port", told)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("%q has no port", told)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", false, fmt.Errorf("%q can be listened on, but not reached: the node should advertise an address", told)
	}
	has := func(is func(m member) bool) bool { return slices.ContainsFunc(c.nodes.members, is) }
	if local(target) && !has(func(m member) bool { return local(m.address) }) {
		return "", false, fmt.Errorf("%q is the node's own host for itself: it should advertise an address that others reach", told)
	}
	if strings.HasPrefix(told, "http://") && c.opts.TLS == nil && has(func(m member) bool { return !m.plain }) {
		return "", false, errors.New("the node wants plain text, and others are talked to under TLS")
	}
	if !strings.Contains(told, "://") && c.opts.TLS == nil {
		plain = plain || has(func(m member) bool { return m.explicit })
	}
	return target, plain, nil
}
