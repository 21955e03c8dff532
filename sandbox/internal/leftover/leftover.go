package leftover

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Check returns an error that names everything that is left of the control plane
// whose temporary folder was work: processes marked with it, the folder, and
// listeners on the addresses.
func Check(work string, addresses ...string) error {
	var all []error
	pids, err := Processes(work)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		all = append(all, fmt.Errorf("process %d: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	if _, err := os.Lstat(work); !errors.Is(err, os.ErrNotExist) {
		all = append(all, fmt.Errorf("folder %s is there (%v)", work, err))
	}
	for _, address := range addresses {
		if c, err := net.Dial("tcp", address); err == nil {
			all = append(all, fmt.Errorf("somebody listens on %s", address), c.Close())
		}
	}
	return errors.Join(all...)
}

// Processes returns the processes of all control planes whose temporary folder's path
// begins with prefix: of one, or of all in a folder.
func Processes(prefix string) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		return nil, errors.New("leftover: there is no /proc to look at")
	}
	mark := []byte("EVENKEEL_SANDBOX_RUN=" + prefix)
	var pids []int
	for _, file := range files {
		// A process that has gone meanwhile, or is another user's, is not ours.
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, mark) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, fmt.Errorf("leftover: %s: %w", file, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
