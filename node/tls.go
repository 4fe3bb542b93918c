package node

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/parts"
)

// Listeners is the setting insecure.
type Listeners = listen.Insecure

// certificateFiles returns the files of this node's certificates.
func (c *Config) certificateFiles() certs.Files {
	f := certs.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSClientCA, CertName: "tls-cert", KeyName: "tls-key",
		CAName: "tls-client-ca"}
	f.Required = c.PoolsOnly() // which has no other way to authenticate callers
	return f
}

// hasTLS reports whether the listeners of the node have TLS.
func (c *Config) hasTLS() bool { return c.TLSCert != "" }

func (c *Config) checkTLS() error {
	var bad rouse.Invalid
	if c.TLSClientCA != "" && c.TLSCert == "" && c.TLSKey == "" {
		bad.Wrong("tls-client-ca", "is for listeners with TLS: give tls-cert and tls-key too")
	}
	bad.Add(c.certificateFiles().Check())
	return bad.Err()
}

// listenRule is the protection of the listeners of this node.
func (c *Config) listenRule() listen.Rule {
	r := listen.Rule{Insecure: c.Insecure, TLS: c.hasTLS(), Access: c.AccessOn(),
		How: "give it TLS with tls-cert and tls-key, and turn on access"}
	if c.PoolsOnly() {
		r.Access, r.How = c.TLSClientCA != "",
			"give it TLS with tls_cert and tls_key, and authenticate callers with tls_client_ca"
	}
	return r
}

func isAddress(text string) bool {
	_, _, err := net.SplitHostPort(text)
	return err == nil
}

// openTLS reads the certificates. They are read again when their files change.
func (n *Node) openTLS() (err error) {
	if !n.cfg.hasTLS() {
		return nil
	}
	if n.certs, err = certs.NewServer(n.cfg.certificateFiles(), n.cfg.Log); err != nil {
		return err
	}
	n.addPart(parts.Part{Name: "TLS", Serve: func(ctx context.Context) error { n.certs.Run(ctx); return nil }})
	gauge := func(name, help string, read func() float64) {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("rouse_tls_certificate_expiry_timestamp_seconds",
		"When the certificate of this node expires, in seconds since 1970.",
		func() float64 { return float64(n.certs.NotAfter().Unix()) })
	gauge("rouse_tls_files_stale",
		"1 if the files of the certificates cannot be used, so that their previous contents are in use.", func() float64 {
			if n.certs.Stale() {
				return 1
			}
			return 0
		})
	return nil
}

// Mutual returns the configurations of connections between nodes; nil: they are in plain text.
func (c core) Mutual() (server, client *tls.Config) {
	if c.certs == nil {
		return nil, nil
	}
	return c.certs.Mutual(c.cfg.NodeNames)
}

// SharesStore reports whether other nodes may serve the same store.
func (c core) SharesStore() bool { return c.cfg.isSharedStore() }

// checkNodes checks where other nodes call this one.
func (c *Config) checkNodes() error {
	var bad rouse.Invalid
	if c.NodesAdvertise != "" && !isAddress(c.NodesAdvertise) {
		bad.Wrong("nodes-advertise", "%q is no address: give HOST:PORT as other nodes reach this node, or nothing",
			c.NodesAdvertise)
	}
	for _, name := range c.NodeNames {
		if err := certs.CheckPattern(name); err != nil {
			bad.Wrong("node-names",
				"has %q, which %v: give names such as rouse.internal, *.rouse.internal or spiffe://example.com/rouse", name, err)
		}
	}
	if !c.Reminders || !c.isSharedStore() {
		return bad.Err()
	}
	rule := listen.Rule{Insecure: c.Insecure, TLS: c.hasTLS(), Access: c.hasTLS(),
		How: "give it TLS with tls-cert and tls-key, by which nodes trust each other"}
	bad.Add(rule.Check("nodes", "nodes-listen", c.PeerListen(), "127.0.0.1:7415"))
	return bad.Err()
}

// PeerListen returns where this node listens for others.
func (c *Config) PeerListen() string {
	if c.NodesListen != "" {
		return c.NodesListen
	}
	host, _, _ := net.SplitHostPort(c.Listen)
	return net.JoinHostPort(host, "0")
}

// PeerAddress returns where other nodes reach a listener of this one: the advertised address, or the port of
// the listener with the host at which clients reach the API.
func (c *Config) PeerAddress(listener, api string) string {
	if c.NodesAdvertise != "" {
		return c.NodesAdvertise
	}
	host, port, err := net.SplitHostPort(listener)
	if ip := net.ParseIP(host); err != nil || ip != nil && !ip.IsUnspecified() {
		return listener
	}
	if host, _, _ = net.SplitHostPort(c.advertisedAddress(api)); host == "" {
		return listener
	}
	return net.JoinHostPort(host, port)
}

func (c core) TLS() *tls.Config {
	if c.certs == nil {
		return nil
	}
	return c.certs.Config()
}
