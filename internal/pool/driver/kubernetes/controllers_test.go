package kubernetes

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// control creates pods of workloads, and deletes surplus and outdated ones and dependents of deleted objects.
// It does immediately what the controllers of Kubernetes do after a while.
func (c *cluster) control() {
	for again := !c.idle; again; {
		again = false
		uids := map[any]bool{}
		owned := map[any][]string{}
		for path, e := range c.objects {
			uids[e.uid] = true
			for _, o := range anys(meta(e.body)["ownerReferences"]) {
				owned[asObj(o)["uid"]] = append(owned[asObj(o)["uid"]], path)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(c.objects)) {
			e := c.objects[path]
			for _, o := range anys(meta(e.body)["ownerReferences"]) {
				if !uids[asObj(o)["uid"]] && meta(e.body)["deletionTimestamp"] == nil {
					c.deleteQuietly(path)
					again = true
				}
			}
		}
		for _, path := range slices.Sorted(maps.Keys(c.objects)) {
			e := c.objects[path]
			if k := e.body["kind"]; (k == Deployment || k == StatefulSet) && meta(e.body)["deletionTimestamp"] == nil {
				again = c.makePods(path, e, owned[e.uid]) || again
			}
		}
	}
}

func anys(v any) []any { list, _ := v.([]any); return list }

// deleteQuietly deletes an object without running the controllers.
func (c *cluster) deleteQuietly(path string) {
	e := c.objects[path]
	if len(finalizers(e.body)) == 0 && at(e.body, "spec", "nodeName") == nil {
		c.remove(path)
		return
	}
	c.delete(path, nil)
}

// makePods makes one change to the pods of a workload, and reports whether one was necessary.
func (c *cluster) makePods(path string, e entry, owned []string) bool {
	want := number(at(e.body, "spec", "replicas"))
	if want == 0 && len(owned) == 0 {
		return false
	}
	pods := strings.Replace(path[:strings.LastIndex(path, "/")], "/apis/apps/v1/", "/api/v1/", 1)
	pods = pods[:strings.LastIndex(pods, "/")] + "/pods/"
	template := clone(at(e.body, "spec", "template").(obj))
	sum := hashTexts(fmt.Sprint(template))
	var fresh, old []string
	for _, p := range slices.Sorted(slices.Values(owned)) {
		o := c.objects[p].body
		if o == nil || meta(o)["deletionTimestamp"] != nil || !strings.HasPrefix(p, pods) {
			continue
		}
		if at(o, "metadata", "labels", "pod-template-hash") == sum {
			fresh = append(fresh, p)
		} else {
			old = append(old, p)
		}
	}
	switch {
	case len(fresh) > want:
		c.deleteQuietly(fresh[len(fresh)-1])
		return true
	case len(old) > 0:
		c.deleteQuietly(old[0])
		return true
	case len(fresh) == want:
		return false
	}
	owner := map[any]string{Deployment: "ReplicaSet", StatefulSet: StatefulSet}[e.body["kind"]]
	name := meta(e.body)["name"].(string) + "-" + strings.ToLower(rand.Text()[:10])
	if owner == StatefulSet {
		for i := range want {
			if name = fmt.Sprintf("%s-%d", meta(e.body)["name"], i); !slices.Contains(fresh, pods+name) {
				break
			}
		}
		if _, taken := c.objects[pods+name]; taken {
			return false // it waits
		}
	}
	pod := obj{"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]}
	m := meta(pod)
	m["name"] = name
	m["labels"].(obj)["pod-template-hash"] = sum
	m["ownerReferences"] = []any{obj{"kind": owner, "uid": e.uid, "controller": true}}
	m["uid"] = fmt.Sprintf("uid-%d", c.version)
	m["creationTimestamp"] = meta(e.body)["creationTimestamp"]
	c.write(pods+name, entry{body: clone(pod), uid: m["uid"].(string)})
	return true
}

func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 1
}
