package client

import (
	"errors"
	"slices"
	"strings"

	"github.com/rousehq/rouse/internal/grpclink"
	"google.golang.org/grpc"
)

// peer is a connection to a node that the client has learned of, shared by its subscriptions.
type peer struct {
	conn  *grpc.ClientConn
	users int
}

// acquirePeer returns a connection to a node at an address that the service reported.
func (c *Client) acquirePeer(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[address]
	if p == nil {
		a, err := c.peerAddress(address)
		if err != nil {
			return nil, err
		}
		conn, err := newConnection(a, c.opts)
		if err != nil {
			return nil, err
		}
		p = &peer{conn: conn}
		c.peers[address] = p
	}
	p.users++
	return p.conn, nil
}

// releasePeer releases a connection from acquirePeer; the last release closes it.
func (c *Client) releasePeer(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[address]; p != nil {
		if p.users--; p.users == 0 {
			_ = p.conn.Close()
			delete(c.peers, address)
		}
	}
}

// peerAddress reads the address of a node that the service reported. It never weakens the options of the
// caller: with TLS, nodes are reached over TLS, and a remote node cannot send the client to this host.
func (c *Client) peerAddress(told string) (a grpclink.Address, err error) {
	if c.opts.usesTLS() { // the node does not decide that
		told = strings.TrimPrefix(told, "http://")
	}
	if a, err = c.opts.linkOptions().Parse(told); err != nil {
		return a, err
	}
	reported := a.Target
	if !strings.Contains(told, "://") { // a port by default is for addresses that people give
		reported = told
	}
	given := make([]grpclink.Address, len(c.nodes.members))
	for i, m := range c.nodes.members {
		given[i] = m.Address
	}
	if err := grpclink.Reported(reported, given); err != nil {
		return a, err
	}
	if strings.HasPrefix(told, "http://") && !c.opts.usesTLS() &&
		slices.ContainsFunc(given, func(a grpclink.Address) bool { return !a.Plain }) {
		return a, errors.New("the node wants plain text, and others are talked to under TLS")
	}
	if !strings.Contains(told, "://") && !c.opts.usesTLS() {
		a.Plain = a.Plain && slices.ContainsFunc(given, func(a grpclink.Address) bool { return a.Plain }) ||
			slices.ContainsFunc(given, func(a grpclink.Address) bool { return a.Explicit })
	}
	return a, nil
}
