package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// spec is the common part of the workers of a key.
type spec struct {
	key  string
	env  map[string]string // without WORKER_ID
	hash string            // of all fields
}

func (d *Driver) groupSpec(g driver.Group) (*spec, error) {
	env := map[string]string{}
	for _, name := range d.config.PassEnv {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for _, m := range []map[string]string{d.config.Env, g.Vars} {
		for name, value := range m {
			if !strings.Contains(value, "\x00") { // variables cannot contain it
				env[name] = value
			}
		}
	}
	// The hash covers only types of this package, not of the library, so that a new version of the library
	// replaces no workers.
	all, err := json.Marshal(struct {
		Template Template
		Env      map[string]string
	}{d.config.Template, env})
	if err != nil {
		return nil, fmt.Errorf("the workers of key %q cannot be described: %w", g.Key, err)
	}
	sum := sha256.Sum256(all)
	return &spec{key: g.Key, env: env, hash: hex.EncodeToString(sum[:8])}, nil
}

// life is one container of a worker. A worker that ended is restarted as another container, because its id
// changes.
type life struct {
	slot     string // identifies the worker across its containers
	number   int    // from 1
	failures int    // how many lives in a row before this one were short
	lastExit string // how the previous container ended
}

// workerID returns the id of the worker in this container.
func (l life) workerID(pool string) string { return pool + "-" + l.slot + "." + strconv.Itoa(l.number) }

// createOptions returns the parameters for the creation of a container.
func (d *Driver) createOptions(s *spec, l life) client.ContainerCreateOptions {
	t := &d.config.Template
	id := l.workerID(d.config.Pool)
	env := []string{"WORKER_ID=" + id}
	for name, value := range s.env {
		if name != "WORKER_ID" {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	host := &container.HostConfig{
		ExtraHosts: t.ExtraHosts, ReadonlyRootfs: t.ReadOnly, CapDrop: t.CapDrop, SecurityOpt: t.SecurityOpt,
		LogConfig: container.LogConfig{Type: t.LogDriver, Config: t.LogOptions},
		// the engine would restart it with the same id
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Resources:     container.Resources{Memory: t.Memory, NanoCPUs: int64(t.CPUs * 1e9)},
	}
	if t.Init {
		host.Init = &t.Init
	}
	if t.PidsLimit > 0 {
		host.PidsLimit = &t.PidsLimit
	}
	if len(t.Networks) > 0 {
		host.NetworkMode = container.NetworkMode(t.Networks[0])
	}
	for _, m := range t.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target,
			ReadOnly: m.ReadOnly})
	}
	return client.ContainerCreateOptions{Name: d.config.containerName(s.key, l), HostConfig: host,
		Config: &container.Config{
			Image: t.Image, Entrypoint: t.Entrypoint, Cmd: t.Command, WorkingDir: t.Dir, User: t.User, Env: env,
			Labels: d.containerLabels(s, l)}}
}
