package kubernetes

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// patch applies an object, or merges a change into one.
func (c *cluster) patch(r *http.Request, path string, body obj) (int, any) {
	if r.Header.Get("Content-Type") == "application/merge-patch+json" {
		path = strings.TrimSuffix(path, "/status")
		e, there := c.objects[path]
		if !there {
			return http.StatusNotFound, path + " is not there"
		}
		e.body = overlay(clone(e.body), body, nil)
		o := c.write(path, e)
		c.control()
		return http.StatusOK, o
	}
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || r.URL.Query().Get("fieldManager") == "" {
		return http.StatusUnsupportedMediaType, "no apply"
	}
	if wrong := unknownField(body); wrong != "" {
		return http.StatusBadRequest, "strict decoding error: unknown field " + wrong
	}
	e, there := c.objects[path]
	if uid, ok := meta(body)["uid"]; ok && (!there || uid != e.uid) {
		return http.StatusConflict, "Precondition failed: UID in precondition"
	}
	status := http.StatusOK
	if !there {
		e = entry{body: obj{}, uid: fmt.Sprintf("uid-%d", c.version)}
		status = http.StatusCreated
	}
	if there && at(e.body, "spec", "selector") != nil && !reflect.DeepEqual(at(e.body, "spec", "selector"), at(body, "spec", "selector")) {
		return http.StatusUnprocessableEntity, "spec.selector: Invalid value: field is immutable"
	}
	before := clone(e.body)
	e.body = overlay(clone(e.body), body, e.applied)
	e.applied = body
	meta(e.body)["uid"] = e.uid
	if !there {
		meta(e.body)["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	if k := e.body["kind"]; (k == Deployment || k == StatefulSet) && at(e.body, "spec", "replicas") == nil {
		e.body["spec"].(obj)["replicas"] = 1
	}
	if !there || !reflect.DeepEqual(before, clone(e.body)) {
		c.write(path, e)
		c.control()
	}
	return status, e.body
}

// unknownField returns a field that no object has; the fake knows only one.
func unknownField(o obj) string {
	if at(o, "spec", "template", "spec", "unknownHere") != nil {
		return `"spec.template.spec.unknownHere"`
	}
	return ""
}

// overlay sets fields of an object, and removes those that were set before and are missing now.
func overlay(o, given, before obj) obj {
	if o == nil {
		o = obj{}
	}
	for name := range before {
		if _, ok := given[name]; !ok {
			delete(o, name)
		}
	}
	for name, v := range given {
		if deeper, ok := v.(map[string]any); ok {
			o[name] = overlay(asObj(o[name]), deeper, asObj(before[name]))
		} else {
			o[name] = v
		}
	}
	return o
}

// bind assigns a node to a pod.
func (c *cluster) bind(path string, body obj) (int, any) {
	path, ok := strings.CutSuffix(path, "/binding")
	e, there := c.objects[path]
	switch {
	case !ok || !there:
		return http.StatusNotFound, path + " is not there"
	case at(e.body, "spec", "nodeName") != nil || meta(e.body)["deletionTimestamp"] != nil:
		return http.StatusConflict, "it has a node, or is being deleted"
	}
	e.body = clone(e.body)
	e.body["spec"].(obj)["nodeName"] = at(body, "target", "name")
	c.write(path, e)
	return http.StatusCreated, obj{"kind": "Status", "status": "Success"}
}

// delete deletes an object. A pod with a node is deleted only with a grace period of zero.
func (c *cluster) delete(path string, how obj) (int, any) {
	e, there := c.objects[path]
	uid := at(how, "preconditions", "uid")
	switch {
	case !there:
		return http.StatusNotFound, path + " is not there"
	case uid != nil && uid != e.uid:
		return http.StatusConflict, "Precondition failed: UID in precondition"
	}
	grace, given := how["gracePeriodSeconds"].(float64)
	if !given {
		grace = 30
		if own, ok := at(e.body, "spec", "terminationGracePeriodSeconds").(float64); ok {
			grace = own
		}
	}
	if len(finalizers(e.body)) == 0 && (at(e.body, "spec", "nodeName") == nil || given && grace == 0) {
		c.remove(path)
		c.control()
		return http.StatusOK, obj{"kind": "Status", "status": "Success"}
	}
	if meta(e.body)["deletionTimestamp"] == nil {
		e.body = clone(e.body)
		meta(e.body)["deletionTimestamp"] = time.Now().UTC().Add(time.Duration(grace) * time.Second).Format(time.RFC3339)
		meta(e.body)["deletionGracePeriodSeconds"] = grace
		c.write(path, e)
	}
	return http.StatusOK, e.body
}

// copies writes n objects that differ only in key, turn and name, and have no pods.
func (c *cluster) copies(path string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		e := entry{body: clone(c.objects[path].body), uid: fmt.Sprintf("copy-%d", i)}
		m := meta(e.body)
		m["uid"], m["name"] = e.uid, fmt.Sprintf("copy-%d", i)
		e.body["spec"].(obj)["replicas"] = 0
		m["labels"].(obj)[labelTurn], m["annotations"].(obj)[annotationKey] = e.uid, e.uid
		c.write(path[:strings.LastIndex(path, "/")+1]+m["name"].(string), e)
	}
}
