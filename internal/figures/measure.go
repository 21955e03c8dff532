package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/internal/tree"
)

// kept returns the number in a file, which a command writes when it passes.
func kept(file, command string) func(string, io.Writer) ([]string, error) {
	return func(root string, notes io.Writer) ([]string, error) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: run %s", errNotMeasured, command)
		} else if err != nil {
			return nil, err
		}
		value, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(notes, "%s: of %s by %s\n", file, info.ModTime().Format(time.DateTime), command)
		return texts(value), nil
	}
}

// texts returns whole numbers as figures.
func texts(values ...int) (all []string) {
	for _, value := range values {
		all = append(all, strconv.Itoa(value))
	}
	return all
}

// goCommand returns what the go command prints in a folder, even if it fails, with variables added
// to its environment.
func goCommand(folder string, variables []string, arguments ...string) ([]byte, error) {
	command := exec.Command("go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), variables...)
	var problems bytes.Buffer
	command.Stderr = &problems
	printed, err := command.Output()
	if err != nil {
		return printed, fmt.Errorf("go %s: %w\n%s%s", arguments[0], err, printed, problems.Bytes())
	}
	return printed, nil
}

// offline keeps the go command from the network, and lets it complete go.mod and go.sum from the
// module cache.
var offline = []string{"GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off"}

// userModules counts the modules that a user of the module at the root takes over.
func userModules(root string, notes io.Writer) (counted []string, err error) {
	folder, err := os.MkdirTemp("", "evenkeel-user-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	module, err := goCommand(root, nil, "list", "-m", "-f", "{{.Path}} {{.GoVersion}}")
	if err != nil {
		return nil, err
	}
	path, version, _ := strings.Cut(strings.TrimSpace(string(module)), " ")
	for name, content := range map[string]string{
		"go.mod":  fmt.Sprintf("module user.example\n\ngo %s\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", version, path, path, root),
		"main.go": fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", path+"/framework"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	modules, err := goCommand(folder, offline, "list", "-m", "all")
	if err != nil {
		return nil, err
	}
	if _, err := goCommand(folder, offline, "build", "-o", os.DevNull, "."); err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fmt.Fprintf(notes, "user_modules: the user's go.sum has %d lines after go build\n", bytes.Count(sums, []byte("\n")))
	return texts(bytes.Count(modules, []byte("\n"))), nil
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// largestPackage counts the lines of the largest package of the module at the root.
func largestPackage(root string, notes io.Writer) ([]string, error) {
	listed, err := goCommand(root, nil, "list", "-json=ImportPath,Dir,GoFiles", "./...")
	if err != nil {
		return nil, err
	}
	all, err := tree.Decode[struct {
		ImportPath, Dir string
		GoFiles         []string
	}](listed)
	if err != nil {
		return nil, err
	}
	largest, of := 0, ""
	for _, p := range all {
		lines := 0
		for _, name := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			if !generated.Match(source) {
				lines += bytes.Count(source, []byte("\n"))
			}
		}
		if lines > largest {
			largest, of = lines, p.ImportPath
		}
	}
	fmt.Fprintf(notes, "largest_package_lines: of %s\n", of)
	return texts(largest), nil
}

var mutantFigures = regexp.MustCompile(`(?m)^figure mutants_total (\d+)\nfigure mutants_killed (\d+)$`)

// mutants counts the mutants, and those that are known to be killed.
func mutants(root string, notes io.Writer) ([]string, error) {
	printed, err := goCommand(root, nil, "test", "-count=1", "-v", "-run", "^TestFiguresOfTheBoard$", "./internal/mutants", "-figures")
	if err != nil {
		return nil, err
	}
	found := mutantFigures.FindSubmatch(printed)
	if found == nil {
		return nil, fmt.Errorf("no figures in\n%s", printed)
	}
	total, err := strconv.Atoi(string(found[1]))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "mutants.json")); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(notes, "mutants_killed: %v: run make mutants\n", errNotMeasured)
		return texts(total), nil
	}
	killed, err := strconv.Atoi(string(found[2]))
	if killed < total {
		fmt.Fprintln(notes, "mutants_killed: make mutants tries the others")
	}
	return texts(total, killed), err
}
