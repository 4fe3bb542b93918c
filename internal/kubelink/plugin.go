package kubelink

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// plugin is a program that makes credentials, as those of cloud providers do.
type plugin struct {
	Command            string
	Args               []string
	Env                []struct{ Name, Value string }
	APIVersion         string
	InstallHint        string
	InteractiveMode    string
	ProvideClusterInfo bool

	info string // the input of the program, as JSON

	runs    sync.WaitGroup
	mu      sync.Mutex
	made    *credential // nil: there is none, or the API server refuses it
	running *pluginRun  // nil: none runs
}

// pluginRun is a run of the program, for which all requests wait that need a credential.
type pluginRun struct {
	end  context.CancelFunc
	done chan struct{} // closed at its end, when the following fields are set
	made *credential
	err  error
}

// pluginTimeout bounds a run of the program. A request that needs its credential may end before: the next one
// finds the credential.
const pluginTimeout = time.Minute

// credential is the credential that a plugin made.
type credential struct {
	token       string
	certificate tls.Certificate
	expires     time.Time // zero: never
}

// renewBefore is how long before its end a credential is replaced.
const renewBefore = 10 * time.Second

// maxCredential bounds the output of a plugin.
const maxCredential = 1 << 20

// preparePlugin sets the input of the program, which describes the cluster. A relative path is one from the
// folder of the kubeconfig.
func (p *plugin) preparePlugin(c *cluster, folder string) error {
	if strings.ContainsRune(p.Command, filepath.Separator) && !filepath.IsAbs(p.Command) {
		p.Command = filepath.Join(folder, p.Command)
	}
	spec := map[string]any{"interactive": false}
	if p.ProvideClusterInfo {
		told := *c
		ca, err := dataOrFile(c.CAData, c.CA)
		if err != nil {
			return err
		}
		told.CA, told.CAData, told.Extensions = "", ca, nil
		spec["cluster"] = told
	}
	text, err := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": spec})
	p.info = string(text)
	return err
}

// validCredential returns one that is valid: the last, or a new one.
func (p *plugin) validCredential(ctx context.Context) (*credential, error) {
	p.mu.Lock()
	if p.made != nil && (p.made.expires.IsZero() || time.Until(p.made.expires) > renewBefore) {
		defer p.mu.Unlock()
		return p.made, nil
	}
	run := p.running
	if run == nil {
		own, end := context.WithTimeout(context.WithoutCancel(ctx), pluginTimeout)
		run = &pluginRun{end: end, done: make(chan struct{})}
		p.running = run
		p.runs.Go(func() { p.finishRun(own, run) })
	}
	p.mu.Unlock()
	select {
	case <-run.done:
		if run.err != nil {
			return &credential{}, fmt.Errorf("plugin %s: %w", p.Command, run.err)
		}
		return run.made, nil
	case <-ctx.Done():
		return &credential{}, fmt.Errorf("plugin %s has not made a credential yet: %w", p.Command, ctx.Err())
	}
}

// finishRun runs the program, and keeps its credential.
func (p *plugin) finishRun(ctx context.Context, run *pluginRun) {
	defer run.end()
	run.made, run.err = p.runCredentialPlugin(ctx)
	p.mu.Lock()
	if p.running = nil; run.err == nil {
		p.made = run.made
	}
	p.mu.Unlock()
	close(run.done)
}

// endPluginRun ends a run of the program.
func (p *plugin) endPluginRun() {
	p.mu.Lock()
	if p.running != nil {
		p.running.end()
	}
	p.mu.Unlock()
	p.runs.Wait()
}

func (p *plugin) discardCredential() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = nil
}

func (p *plugin) runCredentialPlugin(ctx context.Context) (*credential, error) {
	cmd := exec.CommandContext(ctx, p.Command, p.Args...)
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+p.info)
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, p.InstallHint)
	}
	text, err := io.ReadAll(io.LimitReader(out, maxCredential))
	if ended := cmd.Wait(); ended != nil {
		return nil, ended
	}
	var answer struct {
		Kind   string
		Status struct {
			ExpirationTimestamp                         time.Time
			Token, ClientCertificateData, ClientKeyData string
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("its output is no ExecCredential: %w", err)
	}
	s := answer.Status
	made := &credential{token: s.Token, expires: s.ExpirationTimestamp}
	switch {
	case s.ClientCertificateData != "":
		if made.certificate, err = tls.X509KeyPair([]byte(s.ClientCertificateData), []byte(s.ClientKeyData)); err != nil {
			return nil, err
		}
	case s.Token == "":
		return nil, fmt.Errorf("its output of the kind %q has neither a token nor a certificate", answer.Kind)
	}
	return made, nil
}
