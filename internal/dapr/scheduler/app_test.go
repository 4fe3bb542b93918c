package scheduler

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/store/mem"
)

// appKeys authenticates bearers as sidecars of the app that they name.
type appKeys struct{}

func (appKeys) Authenticate(_ context.Context, c *access.Credentials) (*access.Principal, error) {
	if c.Bearer == "" {
		return nil, nil
	}
	scope := access.Scope{Namespaces: []string{job.Namespace("default")}, Apps: []string{c.Bearer}}
	return &access.Principal{ID: "key:" + c.Bearer, Grants: []access.Grant{{Role: access.Sidecar, Scope: scope}}}, nil
}

// TestAKeyIsOfItsAppsOnly: a key that is limited to apps makes no call for another one, and a prefix of apps
// deletes nothing of others, whether or not callers have certificates.
func TestAKeyIsOfItsAppsOnly(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		h := open(t, mem.New(), func(o *Options) {
			o.Access = &access.Gate{Control: access.NewControl(nil), Authenticators: access.Chain{appKeys{}}}
		})
		as := func(app string) *harness {
			conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(app)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return &harness{SchedulerClient: schedulerv1.NewSchedulerClient(conn), t: t}
		}
		orders, two := as("orders"), as("orders2")
		orders.put(app("orders"), "there", due("1h"))
		two.put(app("orders2"), "there", due("1h"))
		for what, err := range orders.everything("orders") {
			if err != nil {
				t.Errorf("%s as itself: %v", what, err)
			}
		}
		for what, err := range orders.everything("orders2") {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s as another app: %v", what, err)
			}
		}
		if _, err := orders.DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: app("orders"), IdPrefixMatch: new(true)}); err != nil {
			t.Fatal(err)
		}
		if _, err := two.get(app("orders2"), "there"); err != nil {
			t.Errorf("a prefix of apps has deleted the jobs of another one: %v", err)
		}
	})
	t.Run("certificates", func(t *testing.T) {
		ca := identitytest.NewCA(t)
		h := open(t, mem.New(), func(o *Options) {
			o.Identity = identityOf(t, ca, "spiffe://cluster.local/ns/dapr-system/dapr-scheduler")
			o.Access = &access.Gate{Control: access.NewControl(nil), Authenticators: access.Chain{appKeys{}}}
		})
		orders := h.as(identityOf(t, ca, "spiffe://cluster.local/ns/default/orders"))
		orders.put(app("orders"), "there", due("1h"))
		for what, err := range orders.everything("orders") {
			if err != nil {
				t.Errorf("%s as itself: %v", what, err)
			}
		}
		for what, err := range orders.everything("bills") {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s as another app: %v", what, err)
			}
		}
		// A key of another app does not widen what the certificate is for.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer bills")
		_, err := orders.GetJob(ctx, &schedulerv1.GetJobRequest{Name: "there", Metadata: app("orders")})
		wantCode(t, err, codes.PermissionDenied)
	})
}

// bearer sends a text as the bearer token of each call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return false }
