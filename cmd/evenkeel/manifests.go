package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// manifests generates the manifests of the project in the current folder, and prints them as one
// stream of YAML, which kubectl can apply in this order: definitions, rights, and what uses them.
func (c command) manifests() error {
	if _, err := moduleOf(c.folder); err != nil {
		return fmt.Errorf("this folder is no project: %w", err)
	}
	generate := exec.Command("make", "manifests")
	generate.Dir, generate.Stdout, generate.Stderr = c.folder, c.err, c.err
	if err := generate.Run(); err != nil {
		return fmt.Errorf("make manifests: %w", err)
	}
	var all []string
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/rbac/*.yaml", "config/manager/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(c.folder, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: there is no such file", pattern)
		}
		all = append(all, found...)
	}
	for _, name := range all {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := strings.TrimPrefix(strings.TrimSpace(string(content)), "---\n")
		if _, err := fmt.Fprintf(c.out, "---\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}
