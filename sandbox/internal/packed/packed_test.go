package packed

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const modulePath = "github.com/evenkeel/evenkeel/sandbox"

func TestThePackedModuleInstallsAndRuns(t *testing.T) {
	// A version that never was, so that no copy in the module cache can stand in, and
	// the copy made now can be told from others and removed.
	version := module.Version{Path: modulePath, Version: fmt.Sprintf("v0.0.0-test.%d", time.Now().UnixNano())}
	proxy := pack(t, version)
	modules := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() { forget(t, modules, version) })
	// Fill the module cache, the usual way, with what the program is built from.
	output(t, "go", "list", "-deps", "-f", "", modulePath)

	folder := t.TempDir()
	install := exec.Command("go", "install", "-trimpath", "-ldflags=-s -w", version.String())
	install.Dir = folder
	install.Env = append(os.Environ(),
		"CGO_ENABLED=0", // with the flags: what all other builds of the program use, so that the build cache is
		"GOBIN="+folder, "GOFLAGS=-modcacherw", "GOWORK=off", "GO111MODULE=on", "GOTOOLCHAIN=local",
		// All else comes from the module cache: no server is asked about our version.
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(modules, "cache", "download"),
		"GONOPROXY=none", "GOPRIVATE=", "GOSUMDB=off", // the checksum database has not heard of it
	)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", install.Args, err, out)
	}
	program := filepath.Join(folder, "sandbox")
	out := output(t, program, "version")
	for _, part := range []string{version.Version, "kubernetes  v1.37."} {
		if !strings.Contains(out, part) {
			t.Errorf("version lacks %q:\n%s", part, out)
		}
	}
	out = output(t, program, "up", "--minimal", "--", program, "kubectl", "get", "namespaces", "-o", "name")
	if !strings.Contains(out, "namespace/default\n") {
		t.Errorf("got %s", out)
	}
}

// pack makes a file system module proxy with this module at the version.
func pack(t *testing.T, version module.Version) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	folder := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version.Version, "Time": time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		version.Version + ".info": info, version.Version + ".mod": mod, "list": []byte(version.Version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	zip, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	if err := modzip.CreateFromDir(zip, version, root); err != nil {
		t.Fatal(err)
	}
	return proxy
}

// forget removes the version from the module cache. The cache's list of versions is
// the go command's to rewrite, which it does with the next download.
func forget(t *testing.T, modules string, version module.Version) {
	copies := []string{filepath.Join(modules, filepath.FromSlash(version.String()))}
	found, err := filepath.Glob(filepath.Join(modules, "cache", "download", filepath.FromSlash(version.Path), "@v", version.Version+".*"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range append(copies, found...) {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, "go", "env", name))
}

func output(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	cmd := exec.Command(program, arguments...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v", program, arguments, err)
	}
	return string(out)
}
