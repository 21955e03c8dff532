package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

func main() {
	specs := flag.String("specs", "", "file with the times of specs, which need not exist")
	keep := flag.String("keep", "", "file for the number of seconds, written unless something failed")
	flag.Parse()
	passed, err := run(os.Stdin, os.Stdout, *specs, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run reports whether everything has passed.
func run(in io.Reader, out io.Writer, specs, keep string) (passed bool, err error) {
	started := time.Now()
	if keep != "" {
		if err := os.Remove(keep); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	r := newReport(out)
	if err := r.read(in); err != nil {
		return false, err
	}
	if err := r.addSpecs(specs); err != nil {
		return false, err
	}
	passed = r.end()
	seconds := fmt.Sprintf("%.0f", time.Since(started).Seconds())
	r.printSlowest(15)
	fmt.Fprintf(out, "figure test_seconds %s\n", seconds)
	if passed && keep != "" {
		err = os.WriteFile(keep, []byte(seconds+"\n"), 0o644)
	}
	return passed, err
}
