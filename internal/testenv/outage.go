package testenv

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// What may happen to the processes of an Env: they are paused, killed, and begin again with the
// same data or with older data. It is for one goroutine at a time.

// Pause stops the API server as a machine that hangs does: its connections stay, and nothing comes
// through them.
func (e *Env) Pause() error { return e.signalAPIServer(syscall.SIGSTOP) }

// Resume lets it go on.
func (e *Env) Resume() error { return e.signalAPIServer(syscall.SIGCONT) }

func (e *Env) signalAPIServer(signal syscall.Signal) error {
	server, err := e.apiServer()
	if err != nil {
		return err
	}
	return syscall.Kill(server.pid, signal)
}

// Crash kills API server and etcd, lets something happen meanwhile, and starts them again at the
// same addresses, with the same data.
func (e *Env) Crash(meanwhile func() error) error { return e.crash(meanwhile) }

// Backup copies the data of etcd as it is now. Restore crashes both, and starts them with that:
// versions go back.
func (e *Env) Backup() (restore func() error, err error) {
	etcd, err := e.etcd()
	if err != nil {
		return nil, err
	}
	data := e.environment.ControlPlane.Etcd.DataDir
	copied := filepath.Join(e.folder, "backup-"+strconv.FormatInt(time.Now().UnixNano(), 10))
	if err := syscall.Kill(etcd.pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("testenv: backup: %w", err)
	}
	err = errors.Join(os.CopyFS(copied, os.DirFS(data)), syscall.Kill(etcd.pid, syscall.SIGCONT))
	if err != nil {
		return nil, fmt.Errorf("testenv: backup: %w", err)
	}
	return func() error {
		return e.crash(func() error {
			return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(copied)))
		})
	}, nil
}

func (e *Env) crash(meanwhile func() error) error {
	server, err := e.apiServer()
	if err != nil {
		return err
	}
	etcd, err := e.etcd()
	if err != nil {
		return err
	}
	for _, p := range []process{server, etcd} {
		if err := p.kill(); err != nil {
			return err
		}
	}
	if err := meanwhile(); err != nil {
		return err
	}
	for _, p := range []process{etcd, server} {
		if err := e.start(p); err != nil {
			return err
		}
	}
	return e.awaitReady()
}

// process is one that runs, or did.
type process struct {
	pid  int
	args []string
}

func (e *Env) apiServer() (process, error) {
	return child("--secure-port=" + e.environment.ControlPlane.APIServer.SecureServing.Port)
}

func (e *Env) etcd() (process, error) {
	return child("--data-dir=" + e.environment.ControlPlane.Etcd.DataDir)
}

// child finds the child process that was started with an argument.
func child(argument string) (process, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return process{}, err
	}
	for _, folder := range folders {
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		args := make([]string, 0)
		for _, arg := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			args = append(args, string(arg))
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && slices.Contains(args, argument) {
			return process{pid, args}, nil
		}
	}
	return process{}, fmt.Errorf("testenv: there is no process with the argument %s", argument)
}

// kill ends it at once.
func (p process) kill() error {
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("testenv: kill %d: %w", p.pid, err)
	}
	for range 1000 { // who has started it waits for it; there is no other way to learn of that
		if syscall.Kill(p.pid, 0) != nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("testenv: %d does not end", p.pid)
}

// start starts it anew.
func (e *Env) start(p process) error {
	command := exec.Command(p.args[0], p.args[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("testenv: start %s anew: %w", p.args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed
		close(ended)
	}()
	e.again = append(e.again, func() {
		_ = command.Process.Kill()
		<-ended
	})
	return nil
}

// awaitReady waits until the API server serves.
func (e *Env) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	at := e.environment.ControlPlane.APIServer.SecureServing.URL("https", "/readyz").String()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err == nil {
			err = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return err
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("testenv: the API server is not ready after a minute: %w", errors.Join(ctx.Err(), err))
		}
		time.Sleep(100 * time.Millisecond)
	}
}
