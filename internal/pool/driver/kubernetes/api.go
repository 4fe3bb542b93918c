package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rousehq/rouse/internal/kubelink"
)

// resource is a kind of objects.
type resource struct {
	apiVersion, kind, plural string
}

var (
	podResource  = resource{"v1", "Pod", "pods"}
	hpaResource  = resource{"autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"}
	kedaResource = resource{"keda.sh/v1alpha1", "ScaledObject", "scaledobjects"}
)

func workloadsOf(kind string) resource {
	return resource{"apps/v1", kind, strings.ToLower(kind) + "s"}
}

// api is a client of an API server. Objects are decoded only with the fields used here.
type api struct{ *kubelink.Link }

// connectAPI returns the configured API server. It makes no request.
func connectAPI(kubeconfig string) (*api, error) {
	link, err := kubelink.Connect("kubeconfig", kubeconfig)
	return &api{link}, err
}

// collectionURL returns the URL of the objects of a kind in a namespace.
func (a *api) collectionURL(r resource, namespace string) string {
	return a.Collection(r.apiVersion, namespace, r.plural)
}

func (a *api) fetchObject(ctx context.Context, at, name string) (*object, error) {
	o := &object{}
	return o, a.Do(ctx, http.MethodGet, at+"/"+name, "", nil, o)
}

// applyObject creates an object, or updates its fields by server-side apply: fields that this program applied
// before and that are missing now are removed. Unknown fields are refused.
func (a *api) applyObject(ctx context.Context, at, name string, body map[string]any) (*object, error) {
	o := &object{}
	return o, a.Do(ctx, http.MethodPatch, at+"/"+name+"?fieldManager="+managedBy+"&force=true&fieldValidation=Strict",
		"application/apply-patch+yaml", body, o)
}

// deleteObject deletes an object, and its dependents after it. A uid restricts it to that object. It returns
// the object if a finalizer keeps it, and nil if it is gone.
func (a *api) deleteObject(ctx context.Context, at, name, uid string) (*object, error) {
	how := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	if uid != "" {
		how["preconditions"] = map[string]any{"uid": uid}
	}
	var text json.RawMessage
	if err := a.Do(ctx, http.MethodDelete, at+"/"+name, "application/json", how, &text); err != nil {
		return nil, err
	}
	var answer struct{ Kind string }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Kind == "Status" {
		return nil, err
	}
	left := &object{}
	if err := json.Unmarshal(text, left); err != nil || left.Metadata.DeletionTimestamp == nil {
		return nil, err
	}
	return left, nil
}
