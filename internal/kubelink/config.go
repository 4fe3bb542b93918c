package kubelink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
)

// config is the part of a kubeconfig that is read. Only the selected cluster and user are decoded.
type config struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
	Clusters []struct {
		Name    string
		Cluster json.RawMessage
	}
	Users []namedUser
}

// namedUser is a user of a kubeconfig, which is not decoded.
type namedUser struct {
	Name string
	User json.RawMessage
}

// cluster is a cluster of a kubeconfig.
type cluster struct {
	Server             string          `json:"server"`
	TLSServerName      string          `json:"tls-server-name,omitempty"`
	Insecure           bool            `json:"insecure-skip-tls-verify,omitempty"`
	CA                 string          `json:"certificate-authority,omitempty"`
	CAData             []byte          `json:"certificate-authority-data,omitempty"`
	ProxyURL           string          `json:"proxy-url,omitempty"`
	DisableCompression bool            `json:"disable-compression,omitempty"`
	Extensions         json.RawMessage `json:"extensions,omitempty"`
}

// user is a user of a kubeconfig. A field that is not here, such as one to act as another user, is refused:
// without it the requests would have other rights.
type user struct {
	Certificate     string  `json:"client-certificate"`
	CertificateData []byte  `json:"client-certificate-data"`
	Key             string  `json:"client-key"`
	KeyData         []byte  `json:"client-key-data"`
	Token           string  `json:"token"`
	TokenFile       string  `json:"tokenFile"`
	Username        string  `json:"username"`
	Password        string  `json:"password"`
	Exec            *plugin `json:"exec"`
	Extensions      json.RawMessage
}

// Connect returns a link to the API server of a kubeconfig, or to that of this pod if there is no file. It
// makes no request. field is the name of the setting, for errors.
func Connect(field, file string) (*Link, error) {
	if file == "" {
		l, err := inPod()
		if err != nil {
			return nil, rouse.Refuse(field, "", "is missing, and this is no pod: "+err.Error(),
				"name a kubeconfig, or run in a pod with a service account")
		}
		return l, nil
	}
	l, err := fromFile(file)
	if err != nil {
		return nil, rouse.Refuse(field, file, "cannot be used: "+err.Error(),
			"use one with the address of the API server, and credentials")
	}
	return l, nil
}

// account is the folder with the service account of a pod.
var account = "/var/run/secrets/kubernetes.io/serviceaccount"

func inPod() (*Link, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	namespace, err := os.ReadFile(filepath.Join(account, "namespace"))
	if err != nil {
		return nil, err
	}
	return newLink(&cluster{Server: "https://" + net.JoinHostPort(host, port), CA: filepath.Join(account, "ca.crt")},
		&user{TokenFile: filepath.Join(account, "token")}, strings.TrimSpace(string(namespace)))
}

func fromFile(file string) (*Link, error) {
	var c config
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var decoded any
	if err = yaml.Unmarshal(text, &decoded); err == nil {
		if text, err = json.Marshal(decoded); err == nil {
			err = json.Unmarshal(text, &c)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, at := range c.Contexts {
		if at.Name != c.CurrentContext {
			continue
		}
		var to cluster
		var as user
		for _, one := range c.Clusters {
			if one.Name == at.Context.Cluster {
				err = errors.Join(err, decodeStrictly(one.Cluster, &to, "cluster "+one.Name))
			}
		}
		for _, one := range c.Users {
			if one.Name == at.Context.User {
				err = errors.Join(err, decodeStrictly(one.User, &as, "user "+one.Name))
			}
		}
		if err != nil {
			return nil, err
		}
		if at.Context.User != "" && !slices.ContainsFunc(c.Users,
			func(u namedUser) bool { return u.Name == at.Context.User }) {
			return nil, fmt.Errorf("its context %q names the user %q, which it does not have", at.Name, at.Context.User)
		}
		for _, name := range []*string{&to.CA, &as.Certificate, &as.Key, &as.TokenFile} {
			if *name != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(filepath.Dir(file), *name)
			}
		}
		if as.Exec != nil {
			if err := as.Exec.preparePlugin(&to, filepath.Dir(file)); err != nil {
				return nil, err
			}
		}
		namespace := at.Context.Namespace
		namespace = cmp.Or(namespace, "default")
		return newLink(&to, &as, namespace)
	}
	return nil, fmt.Errorf("it has no context %q, its current one", c.CurrentContext)
}

// decodeStrictly decodes a part, and refuses fields that are not known.
func decodeStrictly(text []byte, into any, what string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// dataOrFile returns data, or the content of a file if there is none.
func dataOrFile(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return os.ReadFile(file)
}

// tlsConfig returns how the API server and this client are verified. A certificate of the client is read for
// each connection, because it may have been renewed.
func tlsConfig(c *cluster, u *user) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName, InsecureSkipVerify: c.Insecure}
	ca, err := dataOrFile(c.CAData, c.CA)
	switch {
	case err != nil:
		return nil, err
	case len(ca) > 0 && c.Insecure:
		return nil,
			errors.New("insecure-skip-tls-verify is set, and would leave out the certificate authority: remove one of them")
	case len(ca) > 0:
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("certificate-authority: no certificate in PEM form")
		}
	}
	switch {
	case u.Exec != nil:
		t.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			made, err := u.Exec.validCredential(r.Context())
			return &made.certificate, err
		}
	case u.Certificate != "" || len(u.CertificateData) > 0:
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := dataOrFile(u.CertificateData, u.Certificate)
			key, err2 := dataOrFile(u.KeyData, u.Key)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(certificate, key)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, fmt.Errorf("client-certificate: %w", err)
		}
		t.GetClientCertificate = load
	}
	return t, nil
}

// authorizationHeader returns the header of the same name. The file of a token is read each time, because
// Kubernetes replaces it before the token expires.
func (u *user) authorizationHeader(ctx context.Context) (string, error) {
	token := u.Token
	switch {
	case u.Exec != nil:
		made, err := u.Exec.validCredential(ctx)
		if err != nil {
			return "", err
		}
		token = made.token
	case u.TokenFile != "":
		text, err := os.ReadFile(u.TokenFile)
		if err != nil {
			return "", err
		}
		token = strings.TrimSpace(string(text))
	case u.Username != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username+":"+u.Password)), nil
	}
	if token == "" {
		return "", nil
	}
	return "Bearer " + token, nil
}

// dropCredential drops a credential that the API server does not accept any longer.
func (u *user) dropCredential() {
	if u.Exec != nil {
		u.Exec.discardCredential()
	}
}
