package contenders

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// peakMemory is the process's peak of resident memory in bytes. Not getrusage's, which the parent's
// own memory goes into when a process is started.
func peakMemory() (uint64, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("contenders: peak memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			var kilobytes uint64
			if _, err := fmt.Sscanf(value, "%d kB", &kilobytes); err != nil {
				return 0, fmt.Errorf("contenders: peak memory: %q: %w", lines.Text(), err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.Join(errors.New("contenders: peak memory: no VmHWM in /proc/self/status"), lines.Err())
}
