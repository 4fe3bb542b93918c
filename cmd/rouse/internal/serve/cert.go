package serve

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/certs"
)

// CertCmd groups the commands for certificates.
type CertCmd struct {
	Dev certDevCmd `cmd:"" help:"Write an authority, and certificates of a server and of clients, for trials."`
}

// certDevCmd makes certificates for trials.
type certDevCmd struct {
	Dir    string        `arg:"" help:"Directory of the files; it is created."`
	Host   []string      `help:"Names and addresses of the server." default:"localhost,127.0.0.1,::1" placeholder:"HOSTS"`
	Client []string      `help:"Names of clients; each gets a certificate." default:"client" placeholder:"NAMES"`
	Lasts  time.Duration `help:"How long the certificates are valid." default:"720h" placeholder:"DURATION"`
}

func (certDevCmd) Help() string {
	return `DIR gets ca.crt, the authority, which signs these certificates and no others, as its key is not kept; server.crt and server.key; and NAME.crt
and NAME.key of each client, with the name spiffe://rouse.dev/NAME. For production use your own authority.

Examples:

    rouse cert dev certs
    rouse serve --tls-cert certs/server.crt --tls-key certs/server.key --tls-client-ca certs/ca.crt
    rouse list --server https://127.0.0.1:7411 --ca certs/ca.crt --client-cert certs/client.crt --client-key certs/client.key`
}

// devDomain is the trust domain of the names of clients.
const devDomain = "spiffe://rouse.dev/"

// Run writes the files.
func (c *certDevCmd) Run(a *cli.App) error {
	if c.Lasts <= 0 || c.Lasts > 10*365*24*time.Hour {
		return rouse.Refuse("lasts", c.Lasts.String(), "is out of bounds", "give up to 87600h")
	}
	for _, name := range c.Client {
		if rouse.CheckNamespace(name) != nil || name == "ca" || name == "server" {
			return rouse.Refuse("client", name, "is no name of a client",
				"use a-z, 0-9, '-', '_' and '.', and neither ca nor server")
		}
	}
	ca := filepath.Join(c.Dir, "ca.crt")
	if _, err := os.Stat(ca); !errors.Is(err, fs.ErrNotExist) {
		return rouse.Refuse("dir", c.Dir, "has a ca.crt already", "name another directory, or remove it")
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	authority, err := certs.NewAuthority("rouse trial authority", c.Lasts)
	if err != nil {
		return err
	}
	until := time.Now().Add(c.Lasts)
	if _, _, err := authority.Write(c.Dir, "server", certs.Request{Name: "rouse", Names: c.Host, NotAfter: until,
		Server: true}); err != nil {
		return err
	}
	for _, name := range c.Client {
		if _, _, err := authority.Write(c.Dir, name, certs.Request{Name: name, Names: []string{devDomain + name},
			NotAfter: until}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(ca, authority.PEM(), 0o644); err != nil {
		return err
	}
	return a.ShowValue(struct {
		Dir      string    `json:"dir"`
		NotAfter time.Time `json:"not_after"`
	}{c.Dir, until.UTC().Truncate(time.Second)}, func() error {
		a.PrintLine("certificates for trials are in %s, valid until %s", c.Dir, until.UTC().Format(time.RFC3339))
		return nil
	})
}
