package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// scaled checks that the number of workers of a group is restored if another client changes it.
func scaled(t *testing.T, w *harness) {
	c := w.config()
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	o := w.one(t, workloadsOf(Deployment), c)
	w.merge(t, d.workloads.at+"/"+meta(o)["name"].(string), obj{"spec": obj{"replicas": 3}})
	until(t, d, "three run", run("k", 3, 0))
	ensure(t, d, group("k", 1))
	until(t, d, "one runs", run("k", 1, 0))
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// autoscaled checks that a group has a HorizontalPodAutoscaler, which is deleted with it.
func autoscaled(t *testing.T, w *harness) {
	c := w.config()
	c.Scaling.HPA = &HPA{Min: 2, Max: 5, TargetCPU: 70}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	h := w.one(t, hpaResource, c)
	got := fmt.Sprintf("%v %v %v %v", at(h, "spec", "minReplicas"), at(h, "spec", "maxReplicas"), at(h, "spec", "scaleTargetRef", "kind"), at(h, "spec", "metrics"))
	if want := "2 5 Deployment [map[resource:map[name:cpu target:map[averageUtilization:70 type:Utilization]] type:Resource]]"; got != want {
		t.Errorf("it is %s, not %s", got, want)
	}
	if target := at(h, "spec", "scaleTargetRef", "name"); target != meta(w.one(t, workloadsOf(Deployment), c))["name"] {
		t.Errorf("it scales %v", target)
	}
	version := meta(h)["uid"]
	ensure(t, d, group("k", 1))
	if meta(w.one(t, hpaResource, c))["uid"] != version {
		t.Error("it is another one")
	}
	// Another client changes the number, and it is kept; a changed template is still rolled out.
	name := meta(h)["name"].(string)
	until(t, d, "it runs", func(workers []driver.Worker) bool { return run("k", 1, 0)(workers) || run("k", 2, 0)(workers) })
	w.merge(t, d.workloads.at+"/"+meta(w.one(t, workloadsOf(Deployment), c))["name"].(string), obj{"spec": obj{"replicas": 3}})
	old := until(t, d, "three run", run("k", 3, 0))
	c.Scaling.HPA = &HPA{Min: 1, Max: 7}
	worker(c.Template)["args"] = []any{"1"}
	d = newDriver(t, c)
	ensure(t, d, group("k", 1))
	if h := w.one(t, hpaResource, c); at(h, "spec", "maxReplicas") != float64(7) || meta(h)["name"] != name {
		t.Errorf("it is still %v", h["spec"])
	}
	until(t, d, "three others run", func(workers []driver.Worker) bool {
		return run("k", 3, 0)(workers) && !slices.ContainsFunc(workers, func(w driver.Worker) bool {
			return slices.ContainsFunc(old, func(o driver.Worker) bool { return o.ID == w.ID })
		})
	})
	drain(t, d, "k")
	until(t, d, "it is gone", none)
	eventually(t, "its autoscaler is gone", func() bool { return len(w.of(t, hpaResource, c)) == 0 })
}

// scaledByQueue checks that a group has a ScaledObject on its queue, a new one in each turn, and that a group
// scaled to zero is listed.
func scaledByQueue(t *testing.T, w *harness) {
	c := w.config()
	c.Scaling.KEDA = &KEDA{Max: 3, Value: 5, ActivationValue: 0.5, Protocol: "http", Authentication: "broker", PollingInterval: 10e9, Cooldown: 60e9}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	s := w.one(t, kedaResource, c)
	got := fmt.Sprintf("%v %v %v %v %v", at(s, "spec", "minReplicaCount"), at(s, "spec", "maxReplicaCount"), at(s, "spec", "pollingInterval"), at(s, "spec", "cooldownPeriod"), at(s, "spec", "triggers"))
	if want := "0 3 10 60 [map[authenticationRef:map[kind:TriggerAuthentication name:broker] metadata:map[activationValue:0.5 mode:QueueLength protocol:http queueName:p-req-k value:5] type:rabbitmq]]"; got != want {
		t.Errorf("it is %s, not %s", got, want)
	}
	until(t, d, "one runs", run("k", 1, 0))
	w.merge(t, d.workloads.at+"/"+at(s, "spec", "scaleTargetRef", "name").(string), obj{"spec": obj{"replicas": 0}})
	until(t, d, "one waits, as there is none", func(workers []driver.Worker) bool {
		return len(workers) == 1 && workers[0].State == driver.Waiting && workers[0].Key == "k"
	})
	ensure(t, d, group("k", 1))
	if n := at(w.one(t, workloadsOf(Deployment), c), "spec", "replicas"); n != 0.0 {
		t.Errorf("Ensure of a group that is scaled to zero makes it %v", n)
	}
	drain(t, d, "k")
	ensure(t, d, group("k", 1))
	eventually(t, "there is another one, and only that", func() bool {
		now := w.of(t, kedaResource, c)
		return len(now) == 1 && meta(now[0])["name"] != meta(s)["name"]
	})
	if err := d.Ensure(t.Context(), driver.Group{Key: "no queue", Workers: 1}); err == nil || !strings.Contains(err.Error(), queueVariable) {
		t.Errorf("a group without a queue: %v", err)
	}
	for _, key := range []string{"k", "no queue"} {
		drain(t, d, key)
	}
	until(t, d, "all are gone", none)
}

// scalerMissing checks that the deleted autoscaler of a group is created again.
func scalerMissing(t *testing.T, w *harness) {
	c := w.config()
	c.Scaling.HPA = &HPA{Max: 2}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	if _, err := w.admin.deleteObject(t.Context(), d.scalers.at, meta(w.one(t, hpaResource, c))["name"].(string), ""); err != nil {
		t.Fatal(err)
	}
	until(t, d, "it is missed", func(workers []driver.Worker) bool {
		return len(workers) == 2 && slices.ContainsFunc(workers, func(w driver.Worker) bool { return w.State == driver.Waiting && strings.Contains(w.LastExit, "scales") })
	})
	ensure(t, d, group("k", 1))
	until(t, d, "all is well", run("k", 1, 0))
	w.one(t, hpaResource, c)
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// scalingChanges checks that the scaler of an earlier configuration is removed.
func scalingChanges(t *testing.T, w *harness) {
	c := w.config()
	c.Scaling.HPA = &HPA{Max: 5}
	ensure(t, newDriver(t, c), group("k", 1))
	c.Scaling = Scaling{KEDA: &KEDA{Max: 3}}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	if n := len(w.of(t, hpaResource, c)); n > 0 {
		t.Errorf("there are %d HorizontalPodAutoscalers", n)
	}
	if host := at(asObj(anys(at(w.one(t, kedaResource, c), "spec", "triggers"))[0]), "metadata", "hostFromEnv"); host != "WORKER_AMQP_URI" {
		t.Errorf("KEDA takes the address from %v", host)
	}
	c.Scaling = Scaling{}
	d = newDriver(t, c)
	ensure(t, d, group("k", 2))
	if n := len(w.of(t, kedaResource, c)); n > 0 {
		t.Errorf("there are %d ScaledObjects", n)
	}
	until(t, d, "two run", run("k", 2, 0))
	drain(t, d, "k")
	until(t, d, "they are gone", none)
}
