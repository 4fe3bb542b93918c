package identity

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	spiffev1 "github.com/rousehq/rouse/api/spiffe/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// Workload is SPIFFE's Workload API on this machine, such as a SPIRE agent.
type Workload struct {
	Address string // unix:PATH, unix:///PATH, or tcp://IP:PORT
	// App is the app whose certificate is used, if the agent has several.
	App string
	Log *slog.Logger // default none
}

// The only API method that is called, and the header that every call must have, which protects against
// accidental calls.
const (
	fetchSVID   = "/SpiffeWorkloadAPI/FetchX509SVID"
	workloadKey = "workload.spiffe.io"
)

// FromWorkload returns the identity that an agent gives this process, with its trust anchors. Run fetches it
// and all updates.
func FromWorkload(w Workload) (*Identity, error) {
	w.Log = orSilent(w.Log)
	target, err := w.dialTarget()
	if err != nil {
		return nil, err
	}
	i := newIdentity()
	i.run = func(ctx context.Context) { w.followUpdates(ctx, i, target) }
	return i, nil
}

// dialTarget returns the address in gRPC's form.
func (w *Workload) dialTarget() (string, error) {
	if addr, ok := strings.CutPrefix(w.Address, "tcp://"); ok && addr != "" {
		return "passthrough:///" + addr, nil
	}
	if path, ok := strings.CutPrefix(w.Address, "unix:"); ok && strings.TrimLeft(path, "/") != "" {
		return w.Address, nil
	}
	return "", fmt.Errorf("%q is no address of a Workload API: give unix:PATH or tcp://IP:PORT", w.Address)
}

// followUpdates applies the agent's updates until ctx ends. While the agent cannot be reached, the previous
// material stays in use.
func (w *Workload) followUpdates(ctx context.Context, i *Identity, target string) {
	b := backoff.New(askAgain, askSeldom)
	for {
		err := w.fetchUpdates(ctx, i, target, b.Reset)
		if ctx.Err() != nil {
			return
		}
		w.Log.Warn("no certificates from the Workload API; will ask again", "address", w.Address, "error", err)
		b.Pause(ctx)
	}
}

// fetchUpdates applies the updates of one stream until it ends.
func (w *Workload) fetchUpdates(ctx context.Context, i *Identity, target string, came func()) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, workloadKey, "true"))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fetchSVID)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&spiffev1.X509SVIDRequest{}); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer spiffev1.X509SVIDResponse
		if err := stream.RecvMsg(&answer); err != nil {
			return err
		}
		m, err := w.parseUpdate(answer.Svids)
		if err != nil {
			return err
		}
		came()
		i.replaceMaterial(m)
		w.Log.Info("certificate", "id", m.cert.Leaf.URIs[0].String(), "until", m.cert.Leaf.NotAfter)
	}
}

// parseUpdate checks an update. If peers would refuse it, it is refused here, and the previous material stays
// in use.
func (w *Workload) parseUpdate(list []*spiffev1.X509SVID) (*material, error) {
	if len(list) == 0 {
		return nil, errors.New("the agent has no certificate for this process")
	}
	svid := list[0]
	for _, other := range list {
		if strings.HasSuffix(other.SpiffeId, "/"+w.App) {
			svid = other
			break
		}
	}
	chain, err := x509.ParseCertificates(svid.X509Svid)
	if err != nil || len(chain) == 0 {
		return nil, fmt.Errorf("the certificate of %s cannot be read: %v", svid.SpiffeId, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(svid.X509SvidKey)
	if err != nil {
		return nil, fmt.Errorf("the key of %s cannot be read: %w", svid.SpiffeId, err)
	}
	signer, ok := key.(crypto.Signer)
	if public, is := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !is ||
		!public.Equal(signer.Public()) {
		return nil, fmt.Errorf("the key of %s is not that of its certificate", svid.SpiffeId)
	}
	anchors, err := x509.ParseCertificates(svid.Bundle)
	if err != nil {
		return nil, fmt.Errorf("the trust anchors of %s cannot be read: %w", svid.SpiffeId, err)
	}
	m := &material{cert: &tls.Certificate{PrivateKey: key, Leaf: chain[0]}, anchors: x509.NewCertPool()}
	for _, c := range chain {
		m.cert.Certificate = append(m.cert.Certificate, c.Raw)
	}
	for _, c := range anchors {
		m.anchors.AddCert(c)
	}
	if err := verifyChain(m, chain); err != nil {
		return nil, fmt.Errorf("the certificate of %s: %w", svid.SpiffeId, err)
	}
	return m, nil
}
