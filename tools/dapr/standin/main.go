// Command standin runs "rouse dapr-scheduler" where Dapr's own integration tests expect the stock scheduler. Those look into its etcd to
// see whether it has begun; so there is one beside it, on the port that they name, which says so and is used for nothing else.
//
// Those tests hand on no environment, so what it needs lies beside it: rouse, and, for schedulers that are members of one cluster and
// share a store, the file standin.store with the URL of a PostgreSQL, in which each cluster gets a database.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
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
	if port := flag(args, "etcd-client-port"); port != "" && flag(args, "etcd-embed") != "false" {
		ids, own := members(args)
		stop, err := beacon(data+"/beacon", port, own, ids)
		if err != nil {
			return 0, err
		}
		defer stop()
	}
	store := []string{"--data=" + data + "/rouse"}
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

// members returns the ids of all members of the cluster, and the port that this one has for the others.
func members(args []string) (ids []string, own string) {
	for member := range strings.SplitSeq(flag(args, "etcd-initial-cluster"), ",") {
		id, address, _ := strings.Cut(member, "=")
		if ids = append(ids, id); id == flag(args, "id") {
			own = address[strings.LastIndex(address, ":")+1:]
		}
	}
	return ids, own
}

// beacon starts an etcd that names members as leaders.
func beacon(dir, port, peers string, ids []string) (stop func(), err error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "error"
	client, peer := url.URL{Scheme: "http", Host: "127.0.0.1:" + port}, url.URL{Scheme: "http", Host: "127.0.0.1:" + peers}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		e.Close()
		return nil, errors.New("etcd does not start")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, id := range ids {
		if _, err := e.Server.Put(ctx, &etcdserverpb.PutRequest{Key: []byte("dapr/leadership/" + id), Value: []byte("rouse")}); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e.Close, nil
}
