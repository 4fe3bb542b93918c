package kubernetes

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kubelet runs the pods of rouse in a namespace as processes of this machine: it assigns a node to each,
// starts the command of its first container with the variables in its spec, reports its status, restarts it
// when it ends, and stops it when it is deleted. It works with any API server.
type kubelet struct {
	api  *api
	pods *cache
	life sync.WaitGroup
	wake chan struct{}
	runs map[string]chan struct{} // by uid; closed when the pod is to end; owned by the loop
}

const nodeName = "rouse-test"

func startKubelet(t *testing.T, kubeconfig, namespace string) {
	t.Helper()
	a, err := connectAPI(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{api: a, wake: make(chan struct{}, 1), runs: map[string]chan struct{}{}}
	k.pods = newCache(a, podResource, namespace, labelManagedBy+"="+managedBy, func() {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	k.life.Go(func() { k.pods.runCache(ctx) })
	k.life.Go(func() { k.loop(ctx) })
	t.Cleanup(func() { cancel(); k.life.Wait(); a.Close() })
}

func (k *kubelet) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		there := map[string]bool{}
		for _, p := range k.pods.allObjects() {
			there[p.Metadata.UID] = true
			end := k.runs[p.Metadata.UID]
			switch {
			case end == nil && p.Metadata.DeletionTimestamp == nil:
				end = make(chan struct{})
				k.runs[p.Metadata.UID] = end
				k.life.Go(func() { k.run(ctx, p.Metadata.Name, p.Metadata.UID, end) })
			case end != nil && p.Metadata.DeletionTimestamp != nil && !closed(end):
				close(end)
			}
		}
		for uid, end := range k.runs {
			if !there[uid] && !closed(end) {
				close(end)
			}
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// call makes a request that may fail, because the pod may be gone.
func (k *kubelet) call(ctx context.Context, method, at, contentType string, body any) (obj, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var into obj
	return into, k.api.Do(ctx, method, k.pods.at+"/"+at, contentType, body, &into)
}

// run is the life of a pod.
func (k *kubelet) run(ctx context.Context, name, uid string, end chan struct{}) {
	if _, err := k.call(ctx, http.MethodPost, name+"/binding", "application/json", obj{"apiVersion": "v1", "kind": "Binding", "metadata": obj{"name": name},
		"target": obj{"kind": "Node", "name": nodeName}}); err != nil {
		return // it is gone, or will never run
	}
	pod, err := k.read(ctx, name)
	if err != nil {
		return
	}
	grace := 30 * time.Second
	if s, ok := at(pod, "spec", "terminationGracePeriodSeconds").(float64); ok {
		grace = time.Duration(s) * time.Second
	}
	for restarts := 0; !closed(end) && ctx.Err() == nil; restarts++ {
		cmd := command(pod)
		if err := cmd.Start(); err != nil {
			k.status(ctx, pod, obj{"waiting": obj{"reason": "RunContainerError", "message": err.Error()}}, nil, restarts)
			break
		}
		k.status(ctx, pod, obj{"running": obj{"startedAt": now()}}, nil, restarts)
		if k.wait(ctx, cmd, end, grace); closed(end) || ctx.Err() != nil {
			break
		}
		last := obj{"terminated": obj{"exitCode": cmd.ProcessState.ExitCode(), "reason": "Error", "finishedAt": now()}}
		k.status(ctx, pod, obj{"waiting": obj{"reason": "CrashLoopBackOff", "message": "back-off 20ms"}}, last, restarts)
		pause := time.NewTimer(20 * time.Millisecond << min(restarts, 6))
		select {
		case <-pause.C:
		case <-end:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	if ctx.Err() == nil {
		<-end
		_, _ = k.call(ctx, http.MethodDelete, name, "application/json", obj{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": obj{"uid": uid}})
	}
}

func (k *kubelet) read(ctx context.Context, name string) (pod obj, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = k.api.Do(ctx, http.MethodGet, k.pods.at+"/"+name, "", nil, &pod)
	return pod, err
}

// wait waits for the end of a process, and stops it when the pod is to end.
func (k *kubelet) wait(ctx context.Context, cmd *exec.Cmd, end chan struct{}, grace time.Duration) {
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-ended:
		return
	case <-end:
		_ = cmd.Process.Signal(syscall.SIGTERM)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-ended:
			return
		case <-patience.C:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	_ = cmd.Process.Kill()
	<-ended
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func (k *kubelet) status(ctx context.Context, pod, state, last obj, restarts int) {
	status := obj{"name": at(asObj(anys(at(pod, "spec", "containers"))[0]), "name"), "image": "test", "imageID": "test", "ready": state["running"] != nil, "restartCount": restarts, "state": state}
	if last != nil {
		status["lastState"] = last
	}
	_, _ = k.call(ctx, http.MethodPatch, meta(pod)["name"].(string)+"/status", "application/merge-patch+json",
		obj{"status": obj{"phase": "Running", "containerStatuses": []any{status}, "conditions": []any{obj{"type": "Ready",
			"status": map[bool]string{true: "True", false: "False"}[state["running"] != nil], "lastTransitionTime": now()}}}})
}

// command returns the process of a pod's first container.
func command(pod obj) *exec.Cmd {
	container := asObj(anys(at(pod, "spec", "containers"))[0])
	var words []string
	for _, w := range anys(container["command"]) {
		words = append(words, w.(string))
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, one := range anys(container["env"]) {
		v := asObj(one)
		value, _ := v["value"].(string)
		if at(v, "valueFrom", "fieldRef", "fieldPath") == "metadata.name" {
			value = meta(pod)["name"].(string)
		}
		cmd.Env = append(cmd.Env, v["name"].(string)+"="+expand(value))
	}
	return cmd
}

// expand replaces $$ by $. References $(NAME) do not occur here.
func expand(value string) string { return strings.ReplaceAll(value, "$$", "$") }
