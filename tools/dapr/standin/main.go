// Command standin runs "rouse dapr-scheduler" where Dapr's own integration tests expect the stock scheduler.
// Those tests look into its etcd for leading members and for the keys of jobs, so standin serves these keys
// on the etcd port (beacon.go).
//
// The tests pass on no environment, so the files of standin are in its own folder: rouse and, for schedulers
// that form a cluster with a shared store, the file standin.store with the URL of a PostgreSQL server, in
// which each cluster gets a database.
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
	runtime.LockOSThread() // rouse is killed when the thread that started it ends
	code, err := run(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// flag returns the value of a flag --name=value.
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
	_ = os.Remove(addresses) // from an earlier run
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // when this process is killed, rouse is killed
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

// database returns the URL of a cluster's database in the PostgreSQL server whose URL is in a file. The first
// member creates it.
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
		err = nil // another member created it first
	}
	return u.String(), err
}

// apiPort returns a free port outside the ephemeral range: the tests release ephemeral ports just before they
// use them.
func apiPort() string {
	for {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}
