package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// dataFormat is raised when a data folder's layout changes incompatibly.
	dataFormat = 1
	recordFile = "sandbox.json"
	lockFile   = "lock"

	// minFree is the space a boot needs: etcd preallocates 64 MiB for its log, twice,
	// and the rest is for data, logs and peace of mind.
	minFree = 256 << 20
	mebi    = 1 << 20
)

// record says what made a data folder.
type record struct {
	Format     int    `json:"format"`
	Kubernetes string `json:"kubernetes"`
}

// openData prepares the folder that keeps the state and locks it. The caller closes
// the returned file to unlock the folder.
func openData(folder, kubernetes string) (*os.File, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	if err := checkRecord(folder, kubernetes, len(entries) == 0); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	lock, err := lockData(folder)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(record{Format: dataFormat, Kubernetes: kubernetes})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, recordFile), append(content, '\n'), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err)), lock.Close())
	}
	return lock, nil
}

func checkRecord(folder, kubernetes string, empty bool) error {
	content, err := os.ReadFile(filepath.Join(folder, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		if !empty {
			return fmt.Errorf("sandbox: data %s: not empty and not a sandbox's (no %s): %w", folder, recordFile, ErrDataForeign)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return fmt.Errorf("sandbox: data %s: %s is damaged (%w): %w", folder, recordFile, err, ErrDataForeign)
	}
	if r.Format != dataFormat {
		return fmt.Errorf("sandbox: data %s: has format %d, this program has %d: %w", folder, r.Format, dataFormat, ErrDataForeign)
	}
	if r.Kubernetes != kubernetes {
		return fmt.Errorf("sandbox: data %s: was written by Kubernetes %s, this program has %s: %w", folder, r.Kubernetes, kubernetes, ErrDataForeign)
	}
	return nil
}

func lockData(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return lock, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrDataInUse
	}
	return nil, errors.Join(fmt.Errorf("sandbox: data %s: %w", folder, err), lock.Close())
}

// checkSpace refuses to boot where etcd would soon die of a full disk.
func checkSpace(folder string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return fmt.Errorf("sandbox: free space of %s: %w", folder, err)
	}
	free := s.Bavail * uint64(s.Bsize)
	return spaceError(folder, free)
}

func spaceError(folder string, free uint64) error {
	if free >= minFree {
		return nil
	}
	return fmt.Errorf("sandbox: %s has %d MiB free, %d MiB are needed: %w", folder, free/mebi, minFree/mebi, ErrDiskFull)
}

// pathCause strips a path off an error that names it already.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
