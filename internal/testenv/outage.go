package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// What may happen to the processes of an Env: they are paused, killed, and begin again with the
// same data or with older data. It is for one goroutine at a time.

// Pause stops the API server as a machine that hangs does: its connections stay, and nothing comes
// through them.
func (e *Env) Pause() error { return e.server.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (e *Env) Resume() error { return e.server.signal(syscall.SIGCONT) }

// Crash kills API server and etcd, lets something happen meanwhile, and starts them again at the
// same addresses, with the same data.
func (e *Env) Crash(meanwhile func() error) error {
	if err := errors.Join(e.server.kill(), e.etcd.kill()); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := e.etcd.start(); err != nil {
		return err
	}
	return e.server.start()
}

// Backup copies the data of etcd as it is now. Restore crashes both, and starts them with that:
// versions go back.
func (e *Env) Backup() (restore func() error, err error) {
	data := e.etcd.data()
	copied := filepath.Join(e.folder, "backup-"+strconv.FormatInt(time.Now().UnixNano(), 10))
	if err := e.etcd.signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("testenv: backup: %w", err)
	}
	err = errors.Join(os.CopyFS(copied, os.DirFS(data)), e.etcd.signal(syscall.SIGCONT))
	if err != nil {
		return nil, fmt.Errorf("testenv: backup: %w", err)
	}
	return func() error {
		return e.Crash(func() error {
			return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(copied)))
		})
	}, nil
}
