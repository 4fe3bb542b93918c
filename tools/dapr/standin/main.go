// Command standin runs "rouse dapr-scheduler" where Dapr's own integration tests expect the stock scheduler. Those look into its etcd for
// the members that lead and for the keys of jobs; so there is something like one next to it, on the port that they name, which has
// those keys (beacon.go).
//
// Those tests hand on no environment, so what it needs lies beside it: rouse, and, for schedulers that are members of one cluster and
// share a store, the file standin.store with the URL of a PostgreSQL, in which each cluster gets a database.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func main() {
	log.SetPrefix("standin: ")
	runtime.LockOSThread() // the thread that starts rouse is the one whose death rouse is told of
	code, err := run(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// flag returns what a flag of the form --name=value says.
func flag(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

func run(args []string) (int, error) {
	data := flag(args, "etcd-data-dir")
	if data == "" {
		return 0, errors.New("give --etcd-data-dir=DIR")
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	here := filepath.Dir(self)
	addresses := data + "/addresses"
	if port := flag(args, "etcd-client-port"); port != "" && flag(args, "etcd-embed") != "false" {
		b, err := light(flag(args, "id"), port, addresses)
		if err != nil {
			return 0, err
		}
		defer b.Stop()
	}
	_ = os.Remove(addresses) // of an earlier run
	store := []string{"--data=" + data + "/rouse", "--listen=127.0.0.1:" + apiPort(), "--address-file=" + addresses}
	if cluster := flag(args, "etcd-initial-cluster"); strings.Contains(cluster, ",") {
		url, err := database(filepath.Join(here, "standin.store"), cluster)
		if err != nil {
			return 0, err
		}
		store = append(store, "--store="+url)
	}
	cmd := exec.Command(filepath.Join(here, "rouse"), append(append([]string{"dapr-scheduler"}, args...), store...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // who kills this one means that one
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return max(cmd.ProcessState.ExitCode(), 0), nil
}

// database returns the URL of the database of a cluster, in the PostgreSQL whose URL is in a file. Whichever member is first makes it.
func database(file, cluster string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	sum := sha256.Sum256([]byte(cluster))
	u.Path = "dapr_" + hex.EncodeToString(sum[:8])
	var failed *pgconn.PgError
	_, err = conn.Exec(ctx, "CREATE DATABASE "+u.Path)
	if errors.As(err, &failed) && (failed.Code == "42P04" || failed.Code == "23505") {
		err = nil // another member was first
	}
	return u.String(), err
}

// apiPort returns a free port that is not one of those which systems give out: those tests let go of such ports just before they use them.
func apiPort() string {
	for {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}
