package main

import (
	"embed"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

// evenkeel is the path of the module that projects use, and that this program is in.
const evenkeel = "github.com/evenkeel/evenkeel"

//go:embed project
var templates embed.FS

// file is one of a project: its path, and the templates that it consists of.
type file struct {
	path, from string
}

// files are those of a new project. Placeholders stand in paths, too.
var files = []file{
	{"go.mod", "go.mod"},
	{"main.go", "main.go"},
	{"api/v1/@SINGULAR@_types.go", "api.go kind.go"},
	{"@SINGULAR@_reconciler.go", "reconciler.go"},
	{"@SINGULAR@_reconciler_test.go", "reconciler_test.go"},
	{"config/kustomization.yaml", "kustomization.yaml"},
	{"config/manager/manager.yaml", "manager.yaml"},
	{"config/samples/@SINGULAR@.yaml", "sample.yaml"},
	{"Dockerfile", "Dockerfile"},
	{"Makefile", "Makefile"},
}

// added are the files of a kind that is added.
var added = []file{
	{"api/v1/@SINGULAR@_types.go", "types.go kind.go"},
	{"@SINGULAR@_reconciler.go", "reconciler.go"},
	{"@SINGULAR@_reconciler_test.go", "reconciler_test.go"},
	{"config/samples/@SINGULAR@.yaml", "sample.yaml"},
}

// written is what to write: contents by path, which is relative and has slashes.
type written map[string]string

// render fills in the templates.
func render(all []file, n names) (written, error) {
	w := written{}
	for _, f := range all {
		var text strings.Builder
		for name := range strings.FieldsSeq(f.from) {
			content, err := templates.ReadFile("project/" + name + ".txt")
			if err != nil {
				return nil, err
			}
			text.Write(content)
		}
		content := n.fill(text.String())
		if strings.HasSuffix(f.path, ".go") { // how fields align depends on the length of names
			formatted, err := format.Source([]byte(content))
			if err != nil {
				return nil, fmt.Errorf("template of %s: %w", f.path, err)
			}
			content = string(formatted)
		}
		w[n.fill(f.path)] = content
	}
	return w, nil
}

// into writes the files below a folder.
func (w written) into(folder string) error {
	for path, content := range w {
		path = filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// create makes a project.
func (c command) create(a arguments) error {
	n, err := namesOf(a.words[0], a.group, a.words[1], a.plural)
	if err != nil {
		return err
	}
	requires, err := c.requires(a.replace)
	if err != nil {
		return err
	}
	folder := filepath.Join(c.folder, n.project)
	switch found, err := os.ReadDir(folder); {
	case err == nil && len(found) > 0:
		return fmt.Errorf("folder %q: is not empty: it has %q", folder, found[0].Name())
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("folder %q: %w", folder, err)
	}
	w, err := render(files, n)
	if err != nil {
		return err
	}
	w["go.mod"] = requires(w["go.mod"])
	if err := w.into(folder); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, `folder %s: %d files, with the kind %s.%s. Next:
  cd %[1]s
  make test   # generates code and manifests, and tests the operator without a cluster
  make run    # applies the definition to the cluster of kubectl, and runs the operator
`, n.project, len(w), n.plural, n.group)
	return err
}

// requires returns what completes the requirement of evenkeel in a go.mod: the version of this
// program, or a checkout instead.
func (c command) requires(checkout string) (func(goMod string) string, error) {
	if checkout == "" && c.version == "" {
		return nil, errors.New("this program was built from a checkout, so a project cannot require its version: set -replace to the folder of the checkout, or run a published version")
	}
	if checkout == "" {
		return func(goMod string) string { return strings.Replace(goMod, "@VERSION@", c.version, 1) }, nil
	}
	if !filepath.IsAbs(checkout) {
		checkout = filepath.Join(c.folder, checkout)
	}
	switch module, err := moduleOf(checkout); {
	case err != nil:
		return nil, fmt.Errorf("-replace %q: %w", checkout, err)
	case module != evenkeel:
		return nil, fmt.Errorf("-replace %q: is a checkout of %s, want %s", checkout, module, evenkeel)
	}
	return func(goMod string) string {
		return strings.Replace(goMod, "@VERSION@", "v0.0.0", 1) + fmt.Sprintf("\nreplace %s => %q\n", evenkeel, checkout)
	}, nil
}

// moduleOf returns the path of the module in a folder.
func moduleOf(folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "module" {
			return strings.Trim(words[1], "\"`"), nil
		}
	}
	return "", fmt.Errorf("%s: has no module line", filepath.Join(folder, "go.mod"))
}
