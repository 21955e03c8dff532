package contenders

import (
	"fmt"
	"syscall"
)

// peakMemory is the process's peak of resident memory in bytes.
func peakMemory() (uint64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("contenders: peak memory: %w", err)
	}
	return uint64(usage.Maxrss), nil
}
