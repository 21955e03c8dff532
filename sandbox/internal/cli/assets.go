package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

const assetsHelp = `Puts what envtest needs into the folder DIR (created if it is missing): a copy of
this program, and links to it named etcd, kube-apiserver and kubectl. Prints the
folder's absolute path, so that this works:

  export KUBEBUILDER_ASSETS=$(sandbox assets DIR)

Calling it again replaces the copy. Files that are not ours are not overwritten.

Usage:
  sandbox assets DIR
`

const assetProgram = "sandbox"

func assets(arguments []string, s streams) int {
	for _, argument := range arguments {
		if argument == "--help" || argument == "-h" {
			fmt.Fprint(s.out, assetsHelp)
			return 0
		}
	}
	if len(arguments) != 1 {
		return fail(s.err, fmt.Errorf("%w: assets: want one folder, got %q; see sandbox help assets", errUsage, arguments))
	}
	// As of an unset variable: it would be the current folder.
	if arguments[0] == "" {
		return fail(s.err, fmt.Errorf("%w: assets: the folder's name is empty; see sandbox help assets", errUsage))
	}
	folder, err := filepath.Abs(arguments[0])
	if err == nil {
		err = writeAssets(folder)
	}
	if err != nil {
		return fail(s.err, fmt.Errorf("sandbox: assets %s: %w", arguments[0], err))
	}
	fmt.Fprintln(s.out, folder)
	return 0
}

func writeAssets(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	links := []string{"etcd", "kube-apiserver", "kubectl"}
	for _, name := range links {
		if err := checkLink(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	if err := checkProgram(filepath.Join(folder, assetProgram)); err != nil {
		return err
	}
	// A copy, because `go run` deletes the program it has run.
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyProgram(self, filepath.Join(folder, assetProgram)); err != nil {
		return err
	}
	for _, name := range links {
		link := filepath.Join(folder, name)
		if err := os.Symlink(assetProgram, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// checkLink refuses a file that is not a link of ours.
func checkLink(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if target, err := os.Readlink(path); err == nil && target == assetProgram {
		return nil
	}
	return fmt.Errorf("%s exists and is not a link to %s", path, assetProgram)
}

// checkProgram refuses a file that is not a sandbox program, of whichever version.
func checkProgram(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := sandbox.FindBinary(context.Background(), path); err != nil {
		return fmt.Errorf("%s exists and is not a sandbox program", path)
	}
	return nil
}

// copyProgram writes beside target and renames: the old one may be running.
func copyProgram(from, target string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(target), ".sandbox-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	_, copied := io.Copy(out, in)
	if err := errors.Join(copied, out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), target)
}
