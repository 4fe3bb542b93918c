package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// beacon is an etcd that has what the tests look for in the stock scheduler's: a key for each member that leads, and one for each job.
type beacon struct {
	*embed.Etcd
	id string          // of this member
	is map[string]bool // keys that are there
}

// light starts the etcd.
func light(id, dir, port, peers string) (*beacon, error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "error"
	client, peer := url.URL{Scheme: "http", Host: "127.0.0.1:" + port}, url.URL{Scheme: "http", Host: "127.0.0.1:" + peers}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		e.Close()
		return nil, errors.New("etcd does not start")
	}
	// What an earlier run has left says nothing of this one.
	_, err = e.Server.DeleteRange(context.Background(), &etcdserverpb.DeleteRangeRequest{Key: []byte("dapr/"), RangeEnd: []byte("dapr0")})
	if err != nil {
		e.Close()
		return nil, err
	}
	return &beacon{e, id, map[string]bool{}}, nil
}

// shine keeps the keys until ctx ends. They are those of the members that live, and of the jobs that are there, by rouse's API, which is at
// the address that a file names when rouse is there.
func (b *beacon) shine(ctx context.Context, addresses string) {
	for ctx.Err() == nil {
		if api := apiOf(addresses); api != "" {
			if keys, err := b.keys(ctx, api); err == nil {
				b.set(ctx, keys)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (b *beacon) set(ctx context.Context, keys map[string]bool) {
	for key := range keys {
		if b.is[key] {
			continue
		}
		if _, err := b.Server.Put(ctx, &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte("rouse")}); err == nil {
			b.is[key] = true
		}
	}
	for key := range b.is {
		if keys[key] {
			continue
		}
		if _, err := b.Server.DeleteRange(ctx, &etcdserverpb.DeleteRangeRequest{Key: []byte(key)}); err == nil {
			delete(b.is, key)
		}
	}
}

// apiOf returns the address of rouse's API, "" if it is not known yet.
func apiOf(file string) string {
	text, err := os.ReadFile(file)
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

// keys returns those of the members that live and of all jobs. A rouse that is alone on its store does not call itself by the member's id.
func (b *beacon) keys(ctx context.Context, api string) (map[string]bool, error) {
	all := map[string]bool{}
	var nodes struct {
		Nodes []struct {
			ID   string
			Self bool
		}
	}
	if err := get(ctx, "http://"+api+"/v1/nodes", &nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes.Nodes {
		if n.Self {
			n.ID = b.id
		}
		all["dapr/leadership/"+n.ID] = true
	}
	for next := ""; ; {
		var page struct {
			Timers        []struct{ Namespace, Name string }
			NextPageToken string `json:"next_page_token"`
		}
		if err := get(ctx, "http://"+api+"/v1/namespaces/-/timers?page_size=1000&page_token="+url.QueryEscape(next), &page); err != nil {
			return nil, err
		}
		for _, t := range page.Timers {
			if key := keyOf(t.Namespace, t.Name); key != "" {
				all[key] = true
			}
		}
		if next = page.NextPageToken; next == "" {
			return all, nil
		}
	}
}

// keyOf returns the stock scheduler's key of the job of a timer, "" if it is of none. No part of such a name has a slash.
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

func get(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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
	return json.NewDecoder(res.Body).Decode(into)
}
