package service

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// Reasons in google.rpc.ErrorInfo.
const (
	domain        = "reminder"
	wrongInstance = "WRONG_INSTANCE"
	notRegistered = "NOT_REGISTERED"
	noBucket      = "NO_BUCKET"
)

// refusalError returns an error with a reason for programs.
func refusalError(code codes.Code, reason, text string, metadata map[string]string, again *durationpb.Duration) error {
	st := status.New(code, text)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: domain, Reason: reason, Metadata: metadata}}
	if again != nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: again})
	}
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st.Err()
}

// caller is a sidecar.
type caller struct{ app, address string }

// callerOf returns the caller of a call if the call may act as its app.
func (f *sidecarServer) callerOf(ctx context.Context, given *reminderv1.Caller) (caller, error) {
	who, err := f.callers.registeredCaller(ctx, given)
	if err != nil {
		return who, err
	}
	return who, f.requireApp(ctx, who.app)
}

// callers maps connections to the sidecars registered on them, for calls that do not name their sidecar.
type callers struct {
	mu    sync.Mutex
	known map[string]caller
}

// maxCallers bounds the connections that are remembered.
const maxCallers = 20_000

func (c *callers) init() { c.known = map[string]caller{} }

func connectionAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return strings.Clone(p.Addr.String())
	}
	return ""
}

// noteCaller stores the sidecar of a connection.
func (c *callers) noteCaller(ctx context.Context, who caller) {
	at := connectionAddress(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.known[at]; !there && len(c.known) >= maxCallers {
		for other := range c.known { // any: one that has a stream is noted again by it
			delete(c.known, other)
			break
		}
	}
	c.known[at] = who
}

// removeCaller deletes a connection, if it is that of a caller.
func (c *callers) removeCaller(ctx context.Context, who caller) {
	at := connectionAddress(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[at] == who {
		delete(c.known, at)
	}
}

// registeredCaller returns the caller: the one that the call names, or the one that was registered on its
// connection.
func (c *callers) registeredCaller(ctx context.Context, given *reminderv1.Caller) (caller, error) {
	if given != nil {
		who := caller{given.AppId, given.Address}
		return who, who.checkCaller("caller.")
	}
	c.mu.Lock()
	who, ok := c.known[connectionAddress(ctx)]
	c.mu.Unlock()
	if !ok {
		return who, refusalError(codes.FailedPrecondition, notRegistered,
			"it is not known which sidecar calls: register and connect on this connection first, or give caller", nil, nil)
	}
	return who, nil
}

func (c caller) checkCaller(path string) error {
	if err := convert.CheckApp(path+"app_id", c.app); err != nil {
		return err
	}
	return convert.CheckAddress(path+"address", c.address)
}
