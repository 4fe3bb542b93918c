package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// beacon imitates the etcd of the stock scheduler where the tests look into it: it has a key for each leading
// member and one for each job. Every request reads the current state from rouse's API.
type beacon struct {
	etcdserverpb.UnimplementedKVServer
	id        string // of this member
	addresses string // the file that contains the address of rouse's API once rouse runs
}

// light serves the beacon until the server is stopped.
func light(id, port, addresses string) (*grpc.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	etcdserverpb.RegisterKVServer(s, &beacon{id: id, addresses: addresses})
	go s.Serve(l) // ends with the process, or when the server is stopped
	return s, nil
}

// Range returns the keys in a range, without values.
func (b *beacon) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	out := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}}
	all, err := b.within(ctx, r.Key, r.RangeEnd)
	if err != nil {
		return nil, err
	}
	out.Count = int64(len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if out.More = r.Limit > 0 && int64(len(out.Kvs)) == r.Limit; out.More {
			break
		}
		out.Kvs = append(out.Kvs, &mvccpb.KeyValue{Key: []byte(key), Value: []byte("rouse")})
	}
	return out, nil
}

// DeleteRange deletes jobs by their keys.
func (b *beacon) DeleteRange(ctx context.Context, r *etcdserverpb.DeleteRangeRequest) (*etcdserverpb.DeleteRangeResponse, error) {
	all, err := b.within(ctx, r.Key, r.RangeEnd)
	if err != nil {
		return nil, err
	}
	out := &etcdserverpb.DeleteRangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}}
	for _, path := range all {
		if path == "" {
			continue // of a member
		}
		if err := call(ctx, http.MethodDelete, "http://"+b.api()+path, nil); err != nil {
			return nil, err
		}
		out.Deleted++
	}
	return out, nil
}

// within returns the keys in an etcd range: one key, up to an end, or all following keys.
func (b *beacon) within(ctx context.Context, from, end []byte) (map[string]string, error) {
	api := b.api()
	if api == "" {
		return nil, nil // rouse has not started yet
	}
	all, err := b.keys(ctx, api)
	maps.DeleteFunc(all, func(key, _ string) bool {
		switch string(end) {
		case "":
			return key != string(from)
		case "\x00":
			return key < string(from)
		}
		return key < string(from) || key >= string(end)
	})
	return all, err
}

// api returns the address of rouse's API, "" if unknown.
func (b *beacon) api() string {
	text, err := os.ReadFile(b.addresses)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if address, ok := strings.CutPrefix(strings.TrimSpace(line), "api "); ok {
			return address
		}
	}
	return ""
}

// keys returns the keys of live members, and those of all jobs with the paths of their timers. A rouse that
// is alone on its store does not use the member's id.
func (b *beacon) keys(ctx context.Context, api string) (map[string]string, error) {
	all := map[string]string{}
	var nodes struct {
		Nodes []struct {
			ID   string
			Self bool
		}
	}
	if err := call(ctx, http.MethodGet, "http://"+api+"/v1/nodes", &nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes.Nodes {
		if n.Self {
			n.ID = b.id
		}
		all["dapr/leadership/"+n.ID] = ""
	}
	for next := ""; ; {
		var page struct {
			Timers        []struct{ Namespace, Name string }
			NextPageToken string `json:"next_page_token"`
		}
		if err := call(ctx, http.MethodGet, "http://"+api+"/v1/namespaces/-/timers?page_size=1000&page_token="+url.QueryEscape(next), &page); err != nil {
			return nil, err
		}
		for _, t := range page.Timers {
			if key := keyOf(t.Namespace, t.Name); key != "" {
				all[key] = path(t.Namespace, t.Name)
			}
		}
		if next = page.NextPageToken; next == "" {
			return all, nil
		}
	}
}

// keyOf returns the stock scheduler's key of a timer's job, "" if the timer is not a job. No part of such a
// name contains a slash.
func keyOf(namespace, name string) string {
	namespace, ok := strings.CutPrefix(namespace, "dapr.")
	parts := strings.Split(name, "/")
	switch {
	case ok && len(parts) == 3 && parts[0] == "job":
		parts[0] = "app"
	case ok && len(parts) == 4 && parts[0] == "actor":
		parts[0] = "actorreminder"
	default:
		return ""
	}
	return "dapr/jobs/" + strings.Join(slices.Insert(parts, 1, namespace), "||")
}

// path returns a timer's path in rouse's API.
func path(namespace, name string) string {
	return "/v1/namespaces/" + url.PathEscape(namespace) + "/timers/" + strings.ReplaceAll(url.PathEscape(name), ":", "%3A")
}

// call sends a request to rouse's API.
func call(ctx context.Context, method, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}
