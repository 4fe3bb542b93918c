package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rousehq/rouse"
)

// The few requests of the driver use client-go's transport, which handles authentication and TLS. Objects are
// decoded only with the fields used here: the typed clients would add all kinds of Kubernetes to the binary.

// resource is a kind of objects.
type resource struct {
	group, version, kind, plural string
}

func (r resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

var (
	podResource  = resource{"", "v1", "Pod", "pods"}
	hpaResource  = resource{"autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"}
	kedaResource = resource{"keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"}
)

func workloadsOf(kind string) resource {
	return resource{"apps", "v1", kind, strings.ToLower(kind) + "s"}
}

// connect returns the configured API server and the namespace of the client. It makes no request.
func connect(kubeconfig string) (*api, string, error) {
	var rules *clientcmd.ClientConfigLoadingRules
	if kubeconfig != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	} else {
		if _, err := rest.InClusterConfig(); err != nil {
			return nil, "", rouse.Refuse("kubeconfig", "", "is missing, and this is no pod: "+err.Error(), "name a kubeconfig, or run in a pod with a service account")
		}
		rules = &clientcmd.ClientConfigLoadingRules{} // falls back to the service account of the pod
	}
	from := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := from.ClientConfig()
	if err != nil {
		return nil, "", rouse.Refuse("kubeconfig", kubeconfig, "cannot be used: "+err.Error(), "use one with the address of the API server")
	}
	namespace, _, err := from.Namespace()
	if err != nil {
		return nil, "", rouse.Refuse("kubeconfig", kubeconfig, "cannot be used: "+err.Error(), "use one with the address of the API server")
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, "", rouse.Refuse("kubeconfig", kubeconfig, "has no address of an API server: "+err.Error(), "write one such as https://host:6443")
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", rouse.Refuse("kubeconfig", kubeconfig, "cannot be used: "+err.Error(), "check its certificates and tokens")
	}
	return &api{client: client, base: base}, namespace, nil
}

// api is a client of an API server.
type api struct {
	client *http.Client
	base   *url.URL
}

func (a *api) close() { a.client.CloseIdleConnections() }

// collection returns the URL of the objects of a kind in a namespace.
func (a *api) collection(r resource, namespace string) string {
	in := "apis"
	if r.group == "" {
		in = "api"
	}
	return a.base.JoinPath(in, r.group, r.version, "namespaces", url.PathEscape(namespace), r.plural).String()
}

// statusError is a response that reports an error.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the API server answers %d %s: %s", e.code, http.StatusText(e.code), rouse.Shorten(e.message, 1000))
	if e.code == http.StatusForbidden {
		text += ": grant the client the rights that docs/pools.md lists"
	}
	return text
}

func isStatus(err error, code int) bool {
	told, ok := errors.AsType[*statusError](err)
	return ok && told.code == code
}

// longestAnswer bounds the size of a response, and of an event of a watch.
const longestAnswer = 64 << 20

// open makes a request, and returns a successful response.
func (a *api) open(ctx context.Context, method, at, contentType string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "rouse")
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	var told struct{ Message string }
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(text, &told) != nil || told.Message == "" {
		told.Message = strings.TrimSpace(string(text)) // not from the API server, but from a proxy in front of it
	}
	return nil, &statusError{res.StatusCode, told.Message}
}

// do makes a request, and decodes the response.
func (a *api) do(ctx context.Context, method, at, contentType string, body, into any) error {
	res, err := a.open(ctx, method, at, contentType, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("invalid response of the API server: %w", err)
	}
	return nil
}

func (a *api) get(ctx context.Context, at, name string) (*object, error) {
	o := &object{}
	return o, a.do(ctx, http.MethodGet, at+"/"+name, "", nil, o)
}

// apply creates an object, or updates its fields by server-side apply: fields that this program applied
// before and that are missing now are removed. Unknown fields are refused.
func (a *api) apply(ctx context.Context, at, name string, body map[string]any) (*object, error) {
	o := &object{}
	return o, a.do(ctx, http.MethodPatch, at+"/"+name+"?fieldManager="+managedBy+"&force=true&fieldValidation=Strict", "application/apply-patch+yaml", body, o)
}

// delete deletes an object, and its dependents after it. A uid restricts it to that object. It returns the
// object if a finalizer keeps it, and nil if it is gone.
func (a *api) delete(ctx context.Context, at, name, uid string) (*object, error) {
	how := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	if uid != "" {
		how["preconditions"] = map[string]any{"uid": uid}
	}
	var text json.RawMessage
	if err := a.do(ctx, http.MethodDelete, at+"/"+name, "application/json", how, &text); err != nil {
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

// pageSize is the number of objects per page of a list.
const pageSize = 500

// list returns a page of objects, the version of the list, and the token of the next page.
func (a *api) list(ctx context.Context, at, selector, after string) (page []*object, version, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	query := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(pageSize)}}
	if after != "" {
		query.Set("continue", after)
	}
	var list struct {
		Metadata struct{ ResourceVersion, Continue string }
		Items    []*object
	}
	if err := a.do(ctx, http.MethodGet, at+"?"+query.Encode(), "", nil, &list); err != nil {
		return nil, "", "", err
	}
	return list.Items, list.Metadata.ResourceVersion, list.Metadata.Continue, nil
}
