package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	tailLines = 20
	// tailBytes bounds what is read of a log that may be huge.
	tailBytes = 16 << 10
)

// logTail returns the last lines of a log, indented, under a line that names it.
func logTail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return fmt.Sprintf("(no log: %v)", err)
		}
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return tail(filepath.Base(file), content)
}

func tail(name string, content []byte) string {
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return fmt.Sprintf("(its log %s is empty)", name)
	}
	lines := strings.Split(string(content), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("last lines of %s:\n  %s", name, strings.Join(lines, "\n  "))
}
