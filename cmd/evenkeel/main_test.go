package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// checkout is the folder of the module that this package is in.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, content string, elements ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elements...), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contents are those of all files below a folder, by path.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(folder)+"/")] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// evenkeelIn runs the program in a folder, as the published version v1.2.3.
func evenkeelIn(folder string, args ...string) (string, error) {
	var out bytes.Buffer
	err := command{folder: folder, version: "v1.2.3", out: &out, err: &out}.run(args)
	return out.String(), err
}

// newProject makes a project for Greetings and returns its folder.
func newProject(t *testing.T, args ...string) string {
	t.Helper()
	folder := t.TempDir()
	if output, err := evenkeelIn(folder, append([]string{"new", "example.com/greetings", "Greeting"}, args...)...); err != nil {
		t.Fatal(output, err)
	}
	return filepath.Join(folder, "greetings")
}

func TestAProjectIsSmall(t *testing.T) {
	project := newProject(t, "-replace", checkout(t))
	all, lines := contents(t, project), 0
	for path, content := range all {
		n := strings.Count(content, "\n")
		lines += n
		if path == "greeting_reconciler.go" && n > 40 {
			t.Errorf("the reconciler has %d lines, want at most 40", n)
		}
		if left := regexp.MustCompile(`@[A-Z]+@`).FindString(content); left != "" {
			t.Errorf("%s: the placeholder %s is not replaced", path, left)
		}
	}
	if len(all) > 10 || lines > 250 {
		t.Errorf("a project has %d files with %d lines, want at most 10 with at most 250", len(all), lines)
	}
	if len(all) != len(files) {
		t.Errorf("there are %d files, want %d", len(all), len(files))
	}
}

func TestAProjectRequiresTheVersionOfTheProgram(t *testing.T) {
	goMod := read(t, newProject(t), "go.mod")
	if !strings.Contains(goMod, "\nrequire "+evenkeel+" v1.2.3\n") || strings.Contains(goMod, "replace") {
		t.Error(goMod)
	}
	goMod = read(t, newProject(t, "-replace", checkout(t)), "go.mod")
	if !strings.Contains(goMod, "\nreplace "+evenkeel+" => \""+checkout(t)+"\"\n") {
		t.Error(goMod)
	}
	for version1, want := range map[string]string{"v1.2.3": "v1.2.3", "(devel)": "", "": "", "v0.0.0-20260101000000-abcdefabcdef+dirty": ""} {
		info := &debug.BuildInfo{Main: debug.Module{Path: evenkeel, Version: version1}}
		if got := version(info, true); got != want {
			t.Errorf("a program of version %q requires %q, want %q", version1, got, want)
		}
	}
	if got := version(&debug.BuildInfo{Main: debug.Module{Path: "example.com/fork", Version: "v9.0.0"}}, true); got != "" {
		t.Errorf("a program of another module requires %q of evenkeel", got)
	}
}

func TestTemplatesHaveTheVersionsOfThisCheckout(t *testing.T) {
	goMod := read(t, "project", "go.mod.txt")
	goLine := regexp.MustCompile(`(?m)^go \S+$`)
	if got, want := goLine.FindString(goMod), goLine.FindString(read(t, checkout(t), "go.mod")); got != want || want == "" {
		t.Errorf("the template has %q, this checkout %q", got, want)
	}
	generator := regexp.MustCompile(`sigs.k8s.io/controller-tools v(\S+)`).FindStringSubmatch(read(t, checkout(t), "tools", "go.mod"))
	if want := "controller-gen@v" + generator[1] + "\n"; !strings.Contains(read(t, "project", "Makefile.txt"), want) {
		t.Errorf("the template's Makefile does not run %q", want)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(goMod)
	if from := "FROM golang:" + minor[1] + " "; !strings.Contains(read(t, "project", "Dockerfile.txt"), from) {
		t.Errorf("the Dockerfile does not begin with %q", from)
	}
}

func TestDefaultNames(t *testing.T) {
	for _, c := range []struct{ module, kind, project, group, plural string }{
		{"example.com/greetings", "Greeting", "greetings", "example.com", "greetings"},
		{"github.com/Alice/op", "Policy", "op", "alice.github.com", "policies"},
		{"example.com/a/b/op/v2", "Box", "op", "b.a.example.com", "boxes"},
		{"example.com/op", "Key", "op", "example.com", "keys"},
		{"example.com/op", "Y", "op", "example.com", "ys"},
		{"example.com/op", "HTTPMatch", "op", "example.com", "httpmatches"},
		{"example.com/op", "Address", "op", "example.com", "addresses"},
		{"example.com/op", "Mesh", "op", "example.com", "meshes"},
	} {
		n, err := namesOf(c.module, "", c.kind, "")
		if err != nil || n.project != c.project || n.group != c.group || n.plural != c.plural {
			t.Errorf("%s %s: %+v, %v", c.module, c.kind, n, err)
		}
	}
	n, err := namesOf("op", "apps.example.com", "Ox", "oxen")
	if err != nil || n.group != "apps.example.com" || n.plural != "oxen" {
		t.Errorf("%+v, %v", n, err)
	}
}

// What is wrong is named with its argument and its value, and nothing is written.
func TestWhatIsWrongIsNamed(t *testing.T) {
	const module = "example.com/greetings"
	for args, want := range map[string]string{
		"make":                                        `command "make"`,
		"new " + module:                               `new: arguments ["example.com/greetings"]: want "MODULE KIND"`,
		"add":                                         `add: arguments []: want "KIND"`,
		"manifests now":                               `manifests: arguments ["now"]`,
		"add Farewell -group example.com":             "-group",
		"manifests -plural x":                         "-plural",
		"new example.com//greetings Greeting":         `MODULE "example.com//greetings": is no module path: its element ""`,
		"new /greetings Greeting":                     `MODULE "/greetings"`,
		"new example.com/../greetings Greeting":       `its element ".."`,
		"new example.com/gr:eetings Greeting":         `its element "gr:eetings"`,
		"new example.com/Greetings Greeting":          `its end "Greetings"`,
		"new example.com/my_op Greeting":              `its end "my_op"`,
		"new example.com/default Greeting":            `its end "default"`,
		"new example.com/kube-op Greeting":            `its end "kube-op"`,
		"new greetings Greeting":                      `MODULE "greetings": the API's group does not follow from it: set -group`,
		"new example.com/my_team/op Greeting":         "set -group",
		"new " + module + " greeting":                 `KIND "greeting": want CamelCase`,
		"new " + module + " My-Kind":                  `KIND "My-Kind"`,
		"new " + module + " GreetingList":             `KIND "GreetingList"`,
		"new " + module + " GroupVersion":             `KIND "GroupVersion"`,
		"new " + module + " Greeting -group Example":  `-group "Example"`,
		"new " + module + " Greeting -group a.k8s.io": `-group "a.k8s.io"`,
		"new " + module + " Greeting -plural Gs":      `-plural "Gs"`,
		"new " + module + " Greeting -replace /none":  `-replace "/none"`,
		"new " + module + " Greeting -replace other":  `is a checkout of example.com/other, want ` + evenkeel,
		"new example.com/full Greeting":               `full": is not empty: it has "go.mod"`,
		"new example.com/file Greeting":               `file"`,
		"add Farewell":                                "this folder is no project",
		"manifests":                                   "this folder is no project",
	} {
		t.Run(args, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range []string{"other", "full"} {
				if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, "module example.com/"+name+"\n", folder, name, "go.mod")
			}
			write(t, "", folder, "file")
			before := contents(t, folder)
			output, err := evenkeelIn(folder, strings.Fields(args)...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %s", err, want)
			}
			if output != "" || !maps.Equal(before, contents(t, folder)) {
				t.Errorf("something is printed or written: %s", output)
			}
		})
	}
	err := command{folder: t.TempDir()}.run([]string{"new", module, "Greeting"})
	if err == nil || !strings.Contains(err.Error(), "set -replace") {
		t.Errorf("without a version: %v", err)
	}
}

func TestHelpIsPrinted(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"-h"}, {"--help"}, {"new", "-help"}} {
		if output, err := evenkeelIn(t.TempDir(), args...); err != nil || output != usage {
			t.Errorf("%q: %v, %s", args, err, output)
		}
	}
}

func TestAnEmptyFolderIsUsed(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "greetings"), 0o700); err != nil {
		t.Fatal(err)
	}
	if output, err := evenkeelIn(folder, "new", "example.com/greetings", "Greeting"); err != nil || !strings.Contains(output, "greetings.example.com") {
		t.Error(output, err)
	}
}
