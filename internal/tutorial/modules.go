package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// modules are the modules of this checkout, by the folder they are in.
var modules = map[string]string{
	".":       "github.com/evenkeel/evenkeel",
	"sandbox": "github.com/evenkeel/evenkeel/sandbox",
}

// registry serves the modules of a checkout as a module proxy in a folder, at a version that never
// was: no copy in the module cache can stand in for it.
type registry struct {
	folder, version, moduleCache string
}

// publish packs the modules of the checkout into the folder.
func publish(checkout, folder string) (*registry, error) {
	output, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	r := &registry{folder: folder, version: fmt.Sprintf("v0.0.0-tutorial.%d", time.Now().UnixNano()), moduleCache: strings.TrimSpace(string(output))}
	for place, module := range modules {
		if err := r.pack(filepath.Join(checkout, place), module); err != nil {
			return nil, fmt.Errorf("pack %s: %w", module, err)
		}
	}
	return r, nil
}

func (r *registry) pack(source, module string) error {
	folder := filepath.Join(r.folder, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{r.version + ".info": info, r.version + ".mod": mod, "list": []byte(r.version + "\n")} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(folder, r.version+".zip"))
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	return errors.Join(zipModule(archive, source, module+"@"+r.version+"/"), archive.Close(), file.Close())
}

// zipModule adds the files of a module: all but those of modules in it, of hidden folders and of
// the folder of programs.
func zipModule(archive *zip.Writer, source, prefix string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == source {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		to, err := archive.Create(prefix + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	})
}

// environment returns the variables with which the go command finds our modules here, and all
// others where it always does.
func (r *registry) environment() ([]string, error) {
	output, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	proxies := []string{"file://" + r.folder, "file://" + filepath.Join(r.moduleCache, "cache", "download")}
	if others := strings.TrimSpace(string(output)); others != "" {
		proxies = append(proxies, others)
	}
	return append(os.Environ(),
		"GOPROXY="+strings.Join(proxies, ","),
		// No checksum database has heard of the version.
		"GONOSUMDB=github.com/evenkeel/*", "GONOPROXY=none", "GOPRIVATE=",
		"GOWORK=off", "GO111MODULE=on", "GOTOOLCHAIN=local",
		// What the Makefile builds the sandbox with, so that the build cache is shared.
		"CGO_ENABLED=0", "GOFLAGS=-modcacherw -buildvcs=false -trimpath '-ldflags=-s -w'",
	), nil
}

// forget removes the version from the module cache.
func (r *registry) forget() error {
	var all error
	for _, module := range modules {
		path := filepath.FromSlash(module)
		copies, err := filepath.Glob(filepath.Join(r.moduleCache, "cache", "download", path, "@v", r.version+".*"))
		all = errors.Join(all, err)
		for _, name := range append(copies, filepath.Join(r.moduleCache, path+"@"+r.version)) {
			all = errors.Join(all, os.RemoveAll(name))
		}
	}
	return all
}
