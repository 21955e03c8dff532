package guard

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ended says whether a process (its number) or process group (its negative number)
// has ended. One that is dead but not reaped has: the first process of many
// containers never reaps those it adopts.
func Ended(target int) bool {
	if errors.Is(syscall.Kill(target, 0), syscall.ESRCH) {
		return true
	}
	if target > 0 {
		_, dead, found := status(filepath.Join("/proc", strconv.Itoa(target), "stat"))
		return found && dead
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return false
	}
	member := false
	for _, file := range files {
		if group, dead, found := status(file); found && group == -target {
			if !dead {
				return false
			}
			member = true
		}
	}
	// Without a /proc nothing is known but what kill said.
	return member
}

// status reads a process's group, and whether it only waits to be reaped, from its
// file in /proc. Not found is one that is gone, or without a /proc.
func status(file string) (group int, dead, found bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, false, false
	}
	// "1 (name) S 0 1 ...": state, parent, group; the name may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 3 {
		return 0, false, false
	}
	group, err = strconv.Atoi(string(fields[2]))
	return group, bytes.ContainsAny(fields[0], "ZX"), err == nil
}
