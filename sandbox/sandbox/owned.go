package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A temporary folder holds the administrator's login, so it must not stay when all who could remove
// it have been killed: the owner and its guard. The next start collects it, and each stop does.
//
// Each folder has a file that is locked (flock) by all processes of the control plane: they share
// the open file. The kernel unlocks it when the last of them has ended, however it ended. So a lock
// that is free proves that nobody uses the folder, whatever has become of process numbers.
const (
	workPrefix = "evenkeel-sandbox-"
	// draftPrefix is what the name of a folder begins with until its file is locked.
	draftPrefix = "."
	ownedFile   = "owned"
	// outsideFile names what is to be removed together with the folder, a quoted path a line.
	outsideFile = "outside"
	// draftAge is how old a draft must be to be a left-over. A draft holds nothing, and becomes the
	// folder within moments.
	draftAge = time.Hour
)

// makeOwned makes a folder with a locked file. Whoever closes the last copy of it gives the folder
// up.
func makeOwned(folder string) (*os.File, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(folder, ownedFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close(), os.RemoveAll(folder))
	}
	return f, nil
}

// writeOwned records files outside of the folder that end with it.
func writeOwned(folder string, files []string) error {
	var lines []byte
	for _, file := range files {
		if filepath.Dir(file) != folder {
			lines = fmt.Appendf(lines, "%q\n", file)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, outsideFile), lines, 0o600); err != nil {
		return fmt.Errorf("sandbox: temporary folder: %w", err)
	}
	return nil
}

// collect removes the folders of this user that no process owns. What cannot be removed is left to
// the next start: it must not keep this one from booting.
func collect(temporary string) {
	entries, err := os.ReadDir(temporary)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(temporary, entry.Name())
		name, isDraft := strings.CutPrefix(entry.Name(), draftPrefix)
		if !strings.HasPrefix(name, workPrefix) {
			continue
		}
		info, err := os.Lstat(path) // not what a link leads to
		if err != nil || !info.IsDir() || !ownFile(info) {
			continue
		}
		if !isDraft {
			collectFolder(path)
		} else if time.Since(info.ModTime()) > draftAge {
			// Only if it holds nothing else.
			_ = os.Remove(filepath.Join(path, ownedFile))
			_ = os.Remove(path)
		}
	}
}

func ownFile(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// collectFolder removes a folder, and what belongs to it, if no process has it locked. A folder
// without the file is not one of ours, or is being removed.
func collectFolder(folder string) {
	lock, err := os.OpenFile(filepath.Join(folder, ownedFile), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	for _, file := range outside(folder) {
		collectKubeconfig(file)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.Name() == ownedFile {
			continue
		}
		if os.RemoveAll(filepath.Join(folder, entry.Name())) != nil {
			return // and keep the file, by which the next start knows the folder
		}
	}
	_ = os.RemoveAll(folder)
}

// outside reads what writeOwned has written.
func outside(folder string) []string {
	content, err := os.ReadFile(filepath.Join(folder, outsideFile))
	if err != nil {
		return nil
	}
	var files []string
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if file, err := strconv.Unquote(lines.Text()); err == nil && filepath.IsAbs(file) {
			files = append(files, file)
		}
	}
	return files
}

// collectKubeconfig removes a kubeconfig, unless it is somebody else's by now: another control
// plane's, which has it locked, or a file that is not a sandbox's.
func collectKubeconfig(file string) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || !ownFile(info) || checkKubeconfigFile(file) != nil {
		return
	}
	held, err := lockKubeconfig(file)
	if err != nil {
		return
	}
	defer held.Close()
	_ = os.Remove(file)
}
