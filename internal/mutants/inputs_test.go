package mutants

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/tree"
)

// method is the version of how mutants are tried. Raise it with a change of the board after which
// results of before must not be kept.
const method = 1

// inputs are what decides the result of a suite's tests, apart from the mutant.
type inputs struct {
	digest string
	files  map[string]bool // relative to the module's root
}

// alsoRead are files that a package's tests read, or that the programs they run are built from,
// apart from its own sources and testdata: patterns by the package's folder, relative to the
// module's root. /... at the end stands for all below a folder. Tests are never among them. A suite
// that reads anything else below the root is a fault of the board.
var alsoRead = map[string][]string{
	"internal/testenv":   {"sandbox/...", "samples/*/config/..."},
	"internal/callbacks": {"retry/*.go", "timeline/*.go", "scheduler/*.go", "trc/*.go", "eventsource/*.go", "framework/*.go", "framework/*/*.go"},
}

// dependency is a package as the go command lists it.
type dependency struct {
	ImportPath, Dir, ForTest          string
	Deps                              []string
	GoFiles, CgoFiles, CFiles, HFiles []string
	SFiles, OtherFiles, EmbedFiles    []string
	Module                            *struct{ Main bool }
}

func (d dependency) isOurs() bool {
	return d.Module != nil && d.Module.Main && !strings.HasSuffix(d.ImportPath, ".test")
}

// survey returns the inputs of suites of the module at a root, by the suites' folders.
func survey(ctx context.Context, root string, folders ...string) (map[string]inputs, error) {
	toolchain, err := output(ctx, root, "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFLAGS", "CGO_ENABLED")
	if err != nil {
		return nil, err
	}
	packages, err := dependencies(ctx, root, folders)
	if err != nil {
		return nil, err
	}
	found := map[string]inputs{}
	for _, folder := range folders {
		files := map[string]bool{"go.mod": true, "go.sum": true}
		tests, ok := packages[filepath.Join(root, folder)]
		if !ok {
			return nil, fmt.Errorf("%s: has no tests", folder)
		}
		for _, d := range tests {
			if err := d.addFiles(root, files); err != nil {
				return nil, err
			}
		}
		digest, err := digestOf(root, files)
		if err != nil {
			return nil, err
		}
		found[folder] = inputs{fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", method, toolchain, digest))), files}
	}
	return found, nil
}

func output(ctx context.Context, folder string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = folder
	var problems bytes.Buffer
	command.Stderr = &problems
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", arguments[0], err, problems.Bytes())
	}
	return printed, nil
}

// dependencies returns the packages of the module that tests are compiled from, by the absolute
// folders of the tests.
func dependencies(ctx context.Context, root string, folders []string) (map[string][]dependency, error) {
	arguments := []string{"list", "-deps", "-test", "-json=ImportPath,Dir,ForTest,Deps,GoFiles,CgoFiles,CFiles,HFiles,SFiles,OtherFiles,EmbedFiles,Module"}
	for _, folder := range folders {
		arguments = append(arguments, "./"+folder)
	}
	listed, err := output(ctx, root, arguments...)
	if err != nil {
		return nil, err
	}
	ours := map[string]dependency{}
	var tests []dependency
	all, err := tree.Decode[dependency](listed)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.isOurs() {
			ours[d.ImportPath] = d
		} else if strings.HasSuffix(d.ImportPath, ".test") {
			tests = append(tests, d)
		}
	}
	found := map[string][]dependency{}
	for _, test := range tests {
		for _, path := range test.Deps {
			if d, ok := ours[path]; ok {
				found[test.Dir] = append(found[test.Dir], d)
			}
		}
	}
	return found, nil
}

// addFiles adds the files of a package, of its testdata, and those that alsoRead names.
func (d dependency) addFiles(root string, files map[string]bool) error {
	folder, err := filepath.Rel(root, d.Dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(d.GoFiles, d.CgoFiles, d.CFiles, d.HFiles, d.SFiles, d.OtherFiles, d.EmbedFiles) {
		files[filepath.Join(folder, name)] = true
	}
	if err := addTree(root, filepath.Join(folder, "testdata"), func(string) bool { return true }, files); err != nil {
		return err
	}
	for _, pattern := range alsoRead[folder] {
		if err := addMatching(root, pattern, files); err != nil {
			return err
		}
	}
	return nil
}

// addMatching adds the files of a pattern of alsoRead.
func addMatching(root, pattern string, files map[string]bool) error {
	pattern, _ = strings.CutSuffix(pattern, "/...")
	found, err := filepath.Glob(filepath.Join(root, pattern))
	for _, name := range found {
		if below, err := filepath.Rel(root, name); err != nil {
			return err
		} else if err := addTree(root, below, isSource, files); err != nil {
			return err
		}
	}
	return err
}

// isSource reports whether a file may be part of a program.
func isSource(file string) bool {
	return !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/") && !strings.Contains(file, "/bin/")
}

// addTree adds the files below a folder that are wanted, or one file. There need not be any.
func addTree(root, folder string, wanted func(file string) bool, files map[string]bool) error {
	err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(root, name)
		if err == nil && wanted(below) {
			files[below] = true
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// digestOf returns the digest of the names and contents of files below a root.
func digestOf(root string, files map[string]bool) (string, error) {
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a module without dependencies has no go.sum
			return "", err
		}
		fmt.Fprintf(all, "%s %x\n", name, sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", all.Sum(nil)), nil
}

// hash covers everything that decides whether the mutant is killed.
func (m mutant) hash(of map[string]inputs) string {
	parts := []string{m.file, m.old, m.new, m.hangs}
	for _, s := range m.kills {
		parts = append(parts, s.folder, s.run, s.focus, of[s.folder].digest)
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))[:32]
}
