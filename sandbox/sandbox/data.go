package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

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
	// A first run that was killed early has left the lock alone.
	empty := !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() != lockFile && e.Name() != recordFile+unfinished
	})
	fresh, err := checkRecord(folder, kubernetes, empty)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	lock, err := lockData(folder)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return lock, nil
	}
	content, err := json.Marshal(record{Format: dataFormat, Kubernetes: kubernetes})
	if err == nil {
		err = writeWhole(filepath.Join(folder, recordFile), append(content, '\n'))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err)), lock.Close())
	}
	return lock, nil
}

// checkRecord refuses a folder that does not fit. fresh says that it has no record yet.
func checkRecord(folder, kubernetes string, empty bool) (fresh bool, err error) {
	content, err := os.ReadFile(filepath.Join(folder, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		if !empty {
			return false, fmt.Errorf("sandbox: data %s: not empty and not a sandbox's (no %s): %w", folder, recordFile, ErrDataForeign)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return false, fmt.Errorf("sandbox: data %s: %s is damaged (%w): %w", folder, recordFile, err, ErrDataForeign)
	}
	if r.Format != dataFormat {
		return false, fmt.Errorf("sandbox: data %s: has format %d, this program has %d: %w", folder, r.Format, dataFormat, ErrDataForeign)
	}
	if r.Kubernetes != kubernetes {
		return false, fmt.Errorf("sandbox: data %s: was written by Kubernetes %s, this program has %s: %w", folder, r.Kubernetes, kubernetes, ErrDataForeign)
	}
	return false, nil
}

// lockPatience is how long the guard of an owner that was killed may take to clean up and let go of
// the folder.
const lockPatience = 5 * time.Second

func lockData(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox: data %s: %w", folder, pathCause(err))
	}
	for late := time.Now().Add(lockPatience); ; time.Sleep(50 * time.Millisecond) { // the lock tells nobody when it is free
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(late) {
			break
		}
	}
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

// unfinished is what the name of a file ends in while it is being written.
const unfinished = ".new"

// writeWhole writes a file that is there completely or not at all, even if we are
// killed or the disk is full: half of one would make the whole folder useless.
func writeWhole(path string, content []byte) error {
	if err := os.WriteFile(path+unfinished, content, 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(path+unfinished))
	}
	return os.Rename(path+unfinished, path)
}

// pathCause strips a path off an error that names it already.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
