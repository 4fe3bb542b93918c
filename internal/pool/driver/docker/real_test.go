package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rousehq/rouse/test/servers"
)

// ROUSE_DOCKER enables the tests on a Docker Engine. It contains the address of a running one, or own: then
// the tests start one, which requires root and an installed dockerd.
const own = "own"

// realPlace returns a Docker Engine with an image of the contract's worker.
func realPlace(t *testing.T) place {
	t.Helper()
	var p place
	switch host := os.Getenv("ROUSE_DOCKER"); host {
	case "":
		t.Skip("ROUSE_DOCKER is not set: give it the address of a Docker Engine, or the word own to have one started")
	case own:
		p, _ = ownPlace(t)
	default:
		p = place{host: host, image: "rouse-drivertest:" + newSlot()}
		load(t, p)
	}
	return p
}

// ownPlace returns a Docker Engine started by the test.
func ownPlace(t *testing.T) (place, *servers.Server) {
	t.Helper()
	if os.Getenv("ROUSE_DOCKER") != own {
		t.Skip("ROUSE_DOCKER is not the word own, which has a Docker Engine started for the tests")
	}
	s := servers.StartDocker(t)
	p := place{host: s.URL(), image: "rouse-drivertest:" + newSlot()}
	load(t, p)
	return p, s
}

// layer returns the file system of the worker's image: only the worker.
func layer(t *testing.T) []byte {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-o", binary, "./testdata/worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = w.WriteHeader(&tar.Header{Name: "worker", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = w.Write(program)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

// load builds an image of the worker.
func load(t *testing.T, p place) {
	t.Helper()
	e, err := newEngine(p.host, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := e.callEngine(context.Background(), "remove the image", func(ctx context.Context) error {
			_, err := e.api.ImageRemove(ctx, p.image, client.ImageRemoveOptions{Force: true})
			return err
		})
		if err := errors.Join(err, e.closeClient()); err != nil {
			t.Error(err)
		}
	})
	err = e.callEngine(t.Context(), "make the image", func(ctx context.Context) error {
		answer, err := e.api.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(layer(t)), SourceName: "-"}, p.image,
			client.ImageImportOptions{Changes: []string{`ENTRYPOINT ["/worker"]`}})
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer)
		return errors.Join(err, answer.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReal runs the cases on a real engine.
func TestReal(t *testing.T) { runCases(t, realPlace(t)) }

// TestRealPull has an engine pull the image from a registry on this machine, which engines trust.
func TestRealPull(t *testing.T) {
	p, _ := ownPlace(t)
	registry := httptest.NewServer(registry(t))
	defer registry.Close()
	c := p.config(t)
	w := newRecords(t, &c)
	c.Pull, c.Image = Missing, strings.TrimPrefix(registry.URL, "http://")+"/missing:1"
	d := open(t, c)
	for {
		err := d.Ensure(t.Context(), group("k", 1))
		if err == nil {
			<-d.Changed()
			continue
		}
		if !strings.Contains(err.Error(), c.Image) || !strings.Contains(err.Error(), "not found") {
			t.Errorf("of an image that the registry does not have the error is %v", err)
		}
		break
	}
	c.Image = strings.TrimPrefix(registry.URL, "http://") + "/worker:1"
	d = open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 1)))
	until(t, d, "it runs", second(runs(1, w)))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// registry serves the image of the worker, as worker:1.
func registry(t *testing.T) http.Handler {
	t.Helper()
	files := layer(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(files)
	must(t, errors.Join(err, z.Close()))
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		must(t, err)
		return b
	}
	config := encode(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/worker"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{digest(files)}}})
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	blob := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(b), "digest": digest(b)}
	}
	manifest := encode(map[string]any{"schemaVersion": 2, "mediaType": manifestType,
		"config": blob("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{blob("application/vnd.docker.image.rootfs.diff.tar.gzip", packed.Bytes())}})
	bodies := map[string][]byte{"blobs/" + digest(config): config, "blobs/" + digest(packed.Bytes()): packed.Bytes(),
		"manifests/1": manifest, "manifests/" + digest(manifest): manifest}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v2/worker/{what...}", func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.PathValue("what")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if strings.HasPrefix(r.PathValue("what"), "manifests/") {
			w.Header().Set("Content-Type", manifestType)
		}
		w.Header().Set("Docker-Content-Digest", digest(body))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not found"}]}`)
	})
	return mux
}
