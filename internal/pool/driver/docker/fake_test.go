package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/common"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
)

// speaker is a fake Docker Engine with the part of the protocol, version 20.10, that the driver uses. Its
// containers are processes, so it does not show any isolation. Its answers were compared with an engine by
// running the same tests on one.
type speaker struct {
	t      *testing.T
	socket string
	live   sync.WaitGroup // of containers

	mu       sync.Mutex
	boxes    map[string]*spoken
	streams  map[chan events.Message]map[string]map[string]bool
	images   map[string]bool
	registry map[string]error // results of pulls, by image
	pulls    int
	held     chan struct{} // pulls wait until it is closed
	stop     func()        // ends its answers, as an engine that is stopped; serve begins them again
}

// spoken is a container of the fake.
type spoken struct {
	id, name string
	made     time.Time
	request  container.CreateRequest
	networks []string
	state    container.State
	listed   container.ContainerState // the state shown in lists
	cmd      *exec.Cmd
	done     chan struct{} // closed when its process has ended
}

const imageOfTests = "worker"

// speak returns a place with a fake engine.
func speak(t *testing.T) (place, *speaker) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rouse-speaker-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &speaker{t: t, socket: filepath.Join(dir, "s"), boxes: map[string]*spoken{}, streams: map[chan events.Message]map[string]map[string]bool{},
		images: map[string]bool{imageOfTests: true}, registry: map[string]error{}}
	t.Cleanup(func() {
		s.stop()
		s.mu.Lock()
		for _, b := range s.boxes {
			if b.state.Running {
				_ = b.cmd.Process.Kill() // it may have ended
			}
		}
		s.mu.Unlock()
		s.live.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.serve()
	return place{host: "unix://" + s.socket, image: imageOfTests}, s
}

// serve serves until stop is called, or the test ends.
func (s *speaker) serve() {
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: s.handler()}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.t.Error(err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
		serving.Wait()
	})
}

func (s *speaker) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /containers/create": s.create, "POST /containers/{id}/start": s.start, "POST /containers/{id}/kill": s.kill, "POST /containers/{id}/rename": s.rename,
		"DELETE /containers/{id}": s.remove, "GET /containers/json": s.list, "GET /containers/{id}/json": s.inspect, "GET /events": s.follow,
		"POST /images/create": s.pull, "POST /containers/{id}/wait": s.wait, "POST /networks/{id}/connect": s.connect,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				status := http.StatusInternalServerError
				if r, ok := errors.AsType[refusal](err); ok {
					status = r.status
				}
				s.answer(w, status, common.ErrorResponse{Message: err.Error()})
			}
		})
	}
	version := regexp.MustCompile(`^/v1\.41/`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
		if version.MatchString(r.URL.Path) {
			http.StripPrefix("/v1.41", mux).ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Sprintf(format, args...)}
}

func (s *speaker) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has disconnected
}

var rightName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

func (s *speaker) create(w http.ResponseWriter, r *http.Request) error {
	b := &spoken{name: r.URL.Query().Get("name"), made: time.Now(), state: container.State{Status: container.StateCreated, StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z"}}
	if err := json.NewDecoder(r.Body).Decode(&b.request); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !rightName.MatchString(b.name):
		return refuse(http.StatusBadRequest, "Invalid container name (%s), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed", b.name)
	case !s.images[b.request.Image]:
		return refuse(http.StatusNotFound, "No such image: %s", b.request.Image)
	case s.named(b.name):
		return refuse(http.StatusConflict, "Conflict. The container name %q is already in use", "/"+b.name)
	}
	var id [32]byte
	_, _ = rand.Read(id[:]) // never fails
	b.id = hex.EncodeToString(id[:])
	b.listed = b.state.Status
	s.boxes[b.id] = b
	s.answer(w, http.StatusCreated, container.CreateResponse{ID: b.id, Warnings: []string{}})
	return nil
}

func (s *speaker) named(name string) bool {
	for _, b := range s.boxes {
		if b.name == name {
			return true
		}
	}
	return false
}

// of returns the container of a request. The caller holds the lock.
func (s *speaker) of(r *http.Request) (*spoken, error) {
	b := s.boxes[r.PathValue("id")]
	if b == nil {
		return nil, refuse(http.StatusNotFound, "No such container: %s", r.PathValue("id"))
	}
	return b, nil
}

func (s *speaker) start(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(r)
	if err != nil {
		return err
	}
	command := slices.Concat(b.request.Entrypoint, b.request.Cmd)
	if len(command) == 0 {
		command = []string{os.Args[0]}
	}
	b.cmd, b.done = exec.Command(command[0], command[1:]...), make(chan struct{})
	b.cmd.Env = b.request.Env
	if err := b.cmd.Start(); err != nil {
		b.state.ExitCode, b.state.Error = 127, err.Error()
		return refuse(http.StatusBadRequest, "OCI runtime create failed: %v", err)
	}
	b.state = container.State{Status: container.StateRunning, Running: true, StartedAt: time.Now().Format(time.RFC3339Nano), FinishedAt: "0001-01-01T00:00:00Z"}
	b.listed = b.state.Status
	s.emit(b, events.ActionStart)
	s.live.Go(func() {
		defer close(b.done)
		err := b.cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		b.state.Running, b.state.Status, b.state.FinishedAt = false, container.StateExited, time.Now().Format(time.RFC3339Nano)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			b.state.ExitCode = exit.ExitCode()
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				b.state.ExitCode = 128 + int(status.Signal())
			}
		}
		s.emit(b, events.ActionDie)
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // the lists of a real engine lag as well
		s.mu.Lock()
		b.listed = b.state.Status
	})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *speaker) kill(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(r)
	if err != nil {
		return err
	}
	if !b.state.Running {
		return refuse(http.StatusConflict, "Cannot kill container: %s: Container %s is not running", b.id, b.id)
	}
	signal := syscall.SIGKILL
	if r.URL.Query().Get("signal") == "SIGTERM" {
		signal = syscall.SIGTERM
	}
	_ = b.cmd.Process.Signal(signal) // it may just have ended
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *speaker) wait(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	b, err := s.of(r)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return nil // the client has disconnected
	}
	<-b.done
	_ = json.NewEncoder(w).Encode(container.WaitResponse{})
	return nil
}

func (s *speaker) rename(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(r)
	if err != nil {
		return err
	}
	b.name = r.URL.Query().Get("name")
	s.emit(b, events.ActionRename)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *speaker) remove(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	b, err := s.of(r)
	if err == nil && b.state.Running && r.URL.Query().Get("force") != "1" {
		err = refuse(http.StatusConflict, "You cannot remove a running container %s", b.id)
	}
	if err == nil && b.state.Running {
		_ = b.cmd.Process.Kill()
		s.mu.Unlock()
		<-b.done
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	delete(s.boxes, b.id)
	s.emit(b, events.ActionDestroy)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// fits reports whether labels match a filter.
func fits(filter map[string]bool, labels map[string]string) bool {
	for pair := range filter {
		name, value, _ := strings.Cut(pair, "=")
		if labels[name] != value {
			return false
		}
	}
	return true
}

func filters(r *http.Request) (map[string]map[string]bool, error) {
	var f map[string]map[string]bool
	if err := json.Unmarshal([]byte(r.URL.Query().Get("filters")), &f); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid filter: %v", err)
	}
	return f, nil
}

func (s *speaker) list(w http.ResponseWriter, r *http.Request) error {
	f, err := filters(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []container.Summary{}
	for _, b := range s.boxes {
		if fits(f["label"], b.request.Labels) && (b.state.Running || r.URL.Query().Get("all") == "1") {
			list = append(list, container.Summary{ID: b.id, Names: []string{"/" + b.name}, Created: b.made.Unix(), Labels: b.request.Labels, State: b.listed})
		}
	}
	s.answer(w, http.StatusOK, list)
	return nil
}

func (s *speaker) inspect(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(r)
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, container.InspectResponse{ID: b.id, Name: "/" + b.name, State: &b.state, Config: b.request.Config, HostConfig: b.request.HostConfig})
	return nil
}

func (s *speaker) connect(w http.ResponseWriter, r *http.Request) error {
	var body struct{ Container string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[body.Container]
	if b == nil {
		return refuse(http.StatusNotFound, "No such container: %s", body.Container)
	}
	b.networks = append(b.networks, r.PathValue("id"))
	w.WriteHeader(http.StatusOK)
	return nil
}

// emit sends an event. The caller holds the lock.
func (s *speaker) emit(b *spoken, what events.Action) {
	for c, f := range s.streams {
		if (f["event"] == nil || f["event"][string(what)]) && fits(f["label"], b.request.Labels) {
			select {
			case c <- events.Message{Type: events.ContainerEventType, Action: what, Actor: events.Actor{ID: b.id, Attributes: b.request.Labels}}:
			default:
				s.t.Error("the events are not received")
			}
		}
	}
}

func (s *speaker) follow(w http.ResponseWriter, r *http.Request) error {
	f, err := filters(r)
	if err != nil {
		return err
	}
	c := make(chan events.Message, 10_000)
	s.mu.Lock()
	s.streams[c] = f
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, c)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for err := flush.Flush(); err == nil; err = flush.Flush() {
		select {
		case e := <-c:
			if err := json.NewEncoder(w).Encode(e); err != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

func (s *speaker) pull(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("fromImage")
	name = strings.TrimPrefix(name, "docker.io/library/")
	s.mu.Lock()
	s.pulls++
	held := s.held
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err, known := s.registry[name]
	switch {
	case !known:
		return refuse(http.StatusNotFound, "pull access denied for %s", name)
	case err != nil: // errors during a pull are in the stream
		s.answer(w, http.StatusOK, map[string]any{"errorDetail": map[string]string{"message": err.Error()}, "error": err.Error()})
		return nil
	}
	s.images[name] = true
	s.answer(w, http.StatusOK, map[string]string{"status": "Pull complete"})
	return nil
}

// call makes a call to the engine of a place, like another client.
func (p place) call(t *testing.T, f func(ctx context.Context, e *engine) error) {
	t.Helper()
	e, err := newEngine(p.host, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	err = e.callEngine(t.Context(), "a call of the test", func(ctx context.Context) error { return f(ctx, e) })
	if err := errors.Join(err, e.closeClient()); err != nil {
		t.Fatal(err)
	}
}
