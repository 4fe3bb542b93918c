package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// What the peers are given: one job that waits for its time, with all options, and one that has failed once.
var waits = time.Date(2090, 1, 31, 9, 0, 0, 123456000, time.UTC)

type reminder struct {
	To string `json:"to"`
}

func (reminder) Kind() string { return "remind" }

type charge struct {
	Cents int `json:"cents"`
}

func (charge) Kind() string { return "charge" }

type failing struct{ river.WorkerDefaults[charge] }

func (failing) Work(context.Context, *river.Job[charge]) error { return errors.New("card <declined>") }

func (failing) NextRetry(*river.Job[charge]) time.Time { return time.Now().Add(time.Hour) }

// exported runs the command of docs/moving-in.md that exports, and has its file imported. With ROUSE_UPDATE=1
// the file becomes a sample of internal/foreign.
func exported(t *testing.T, kind string, replace ...string) map[string]foreign.Entry {
	t.Helper()
	page, err := os.ReadFile("../../docs/moving-in.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		command, _, ok := strings.Cut(m[1], "\nrouse import "+kind+".jsonl")
		if !ok {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", strings.NewReplacer(replace...).Replace(command))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	in, err := os.ReadFile(filepath.Join(dir, kind+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile("../../internal/foreign/testdata/"+kind, in, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}"})
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v of\n%s", len(entries), err, in)
	}
	found := map[string]foreign.Entry{}
	for _, e := range entries {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Name, e.Err)
		}
		what, _, _ := strings.Cut(e.Name, "-")
		found[what+" "+e.Spec.Labels["queue"]] = e
	}
	return found
}

// body compares the payload, but for its id.
func body(t *testing.T, e *foreign.Entry, want string) {
	t.Helper()
	var have map[string]any
	if err := json.Unmarshal(e.Spec.Payload, &have); err != nil {
		t.Fatal(err)
	}
	delete(have, "id")
	if got, _ := json.Marshal(have); string(got) != want {
		t.Errorf("the payload of %s is %s", e.Name, got)
	}
}

// TestRiverIsImported: what River itself has written is exported by the documented command, and imported.
func TestRiverIsImported(t *testing.T) {
	url := servers.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &failing{})
	client, err := river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler), Workers: workers, SkipUnknownJobCheck: true, Queues: map[string]river.QueueConfig{"money": {MaxWorkers: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(args river.JobArgs, o river.InsertOpts) int64 {
		made, err := client.Insert(t.Context(), args, &o)
		if err != nil {
			t.Fatal(err)
		}
		return made.Job.ID
	}
	insert(reminder{"Åda & Co"}, river.InsertOpts{ScheduledAt: waits, Tags: []string{"mail", "daily"}, Priority: 3, MaxAttempts: 5, Metadata: []byte(`{"tenant": 7}`)})
	insert(reminder{"Bo"}, river.InsertOpts{ScheduledAt: waits, Queue: "unique", UniqueOpts: river.UniqueOpts{ByArgs: true}})
	insert(reminder{"now"}, river.InsertOpts{}) // is worked now, and is not exported
	fails := insert(charge{7}, river.InsertOpts{Queue: "money", MaxAttempts: 3})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a job has failed", func() bool {
		j, err := client.JobGet(t.Context(), fails)
		return err == nil && j.State == rivertype.JobStateRetryable
	})
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	entries := exported(t, "river", "$DATABASE_URL", url)
	e := entries["remind default"]
	if s := &e.Spec; s.Schedule != rouse.At(waits).String() || s.Retry.Attempts != 5 || s.Priority != rouse.PriorityLow || s.Labels["kind"] != "remind" || len(e.Notes) > 0 {
		t.Errorf("%+v", e)
	}
	body(t, &e, `{"args":{"to":"Åda \u0026 Co"},"kind":"remind","metadata":{"tenant":7},"queue":"default","tags":["mail","daily"]}`)
	if e := entries["remind unique"]; e.Spec.Retry.Attempts != 25 || e.Spec.Priority != 0 {
		t.Errorf("%+v", e)
	}
	e = entries["charge money"]
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], `"card <declined>"; attempts left: 2`) || e.Spec.Retry.Attempts != 2 {
		t.Errorf("%+v", e)
	}
}

// TestAsynqIsImported does the same with asynq.
func TestAsynqIsImported(t *testing.T) {
	url := servers.Redis(t)
	at, err := asynq.ParseRedisURI(url)
	if err != nil {
		t.Fatal(err)
	}
	client, inspector := asynq.NewClient(at), asynq.NewInspector(at)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	enqueue := func(kind string, payload []byte, headers map[string]string, o ...asynq.Option) string {
		info, err := client.EnqueueContext(t.Context(), asynq.NewTaskWithHeaders(kind, payload, headers), o...)
		if err != nil {
			t.Fatal(err)
		}
		return info.ID
	}
	enqueue("remind", []byte(`{"to": "Åda & Co"}`), map[string]string{"trace": "1"}, asynq.ProcessAt(waits), asynq.MaxRetry(4), asynq.Timeout(2*time.Hour),
		asynq.Deadline(waits.Add(time.Hour)), asynq.Retention(24*time.Hour), asynq.Unique(time.Hour))
	enqueue("raw", []byte("\x00\xff\n%q"), nil, asynq.ProcessAt(waits), asynq.TaskID("7"))
	fails := enqueue("charge", nil, nil, asynq.MaxRetry(2), asynq.Timeout(time.Minute))
	server := asynq.NewServer(at, asynq.Config{LogLevel: asynq.FatalLevel, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("card <declined>") }))
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a task has failed", func() bool {
		info, err := inspector.GetTaskInfo("default", fails)
		return err == nil && info.State == asynq.TaskStateRetry
	})
	server.Shutdown()

	entries := exported(t, "asynq", "redis://127.0.0.1:6379/0", url)
	e := entries["remind default"]
	if s := &e.Spec; s.Schedule != "2090-01-31T09:00:00.000Z" || s.Retry.Attempts != 5 || s.Retry.Timeout != time.Hour || s.Deadline != time.Hour || s.Keep != 24*time.Hour || len(e.Notes) != 2 {
		t.Errorf("%+v", e)
	}
	body(t, &e, `{"headers":{"trace":"1"},"payload":{"to":"Åda \u0026 Co"},"queue":"default","type":"remind"}`)
	e = entries["raw default"]
	body(t, &e, `{"payload_base64":"AP8KJXE=","queue":"default","type":"raw"}`)
	if e.Name != "raw-7" || e.Spec.Retry.Attempts != 26 {
		t.Errorf("%+v", e)
	}
	e = entries["charge default"]
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], `"card <declined>"; attempts left: 2`) || e.Spec.Retry.Attempts != 2 || e.Spec.Retry.Timeout != time.Minute {
		t.Errorf("%+v", e)
	}
}
