package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	modulePath       = "github.com/evenkeel/evenkeel/sandbox"
	kubernetesModule = "k8s.io/kubernetes"

	// BinaryVariable is the environment variable that names the sandbox program.
	BinaryVariable = "EVENKEEL_SANDBOX"
)

// FindBinary returns the path of the sandbox program: given if that is not "",
// else $EVENKEEL_SANDBOX, else one that is built with the go command from this
// module, at the version the current folder's module uses, into the user's cache
// folder. The first build takes minutes and gigabytes (all of Kubernetes), later
// ones seconds. It is an error if the program is missing or not a sandbox.
func FindBinary(ctx context.Context, given string) (string, error) {
	if given == "" {
		given = os.Getenv(BinaryVariable)
	}
	if given == "" {
		built, err := buildBinary(ctx)
		if err != nil {
			return "", err
		}
		given = built
	}
	path, err := filepath.Abs(given)
	if err != nil {
		return "", fmt.Errorf("sandbox: binary %s: %w", given, err)
	}
	if _, err := kubernetesVersion(path); err != nil {
		return "", err
	}
	return path, nil
}

// kubernetesVersion reads the Kubernetes version out of a sandbox program.
func kubernetesVersion(binary string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("sandbox: binary %s: %w", binary, pathCause(err))
	}
	for _, module := range info.Deps {
		if module.Path == kubernetesModule && info.Path == modulePath {
			return module.Version, nil
		}
	}
	return "", fmt.Errorf("sandbox: binary %s: is not a sandbox program (it was built from %s)", binary, info.Path)
}

// buildBinary builds the program in the folder of its own module, so that exactly
// the versions in that module's go.mod are used.
func buildBinary(ctx context.Context) (string, error) {
	folder, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", modulePath)
	if err != nil {
		return "", fmt.Errorf("sandbox: find the module %s: %w; set %s to a sandbox program instead", modulePath, err, BinaryVariable)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	sum := sha256.Sum256([]byte(folder))
	target := filepath.Join(cache, "evenkeel", "sandbox-"+hex.EncodeToString(sum[:8]), "sandbox")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	// Test packages run side by side, and would all build at the same time.
	lock, err := os.OpenFile(target+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("sandbox: lock %s: %w", lock.Name(), err)
	}
	// Built beside and renamed: the old one may be running.
	fresh := target + ".new"
	if _, err := goCommand(ctx, folder, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", fresh, "."); err != nil {
		return "", fmt.Errorf("sandbox: build %s: %w", modulePath, err)
	}
	if err := os.Rename(fresh, target); err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	return target, nil
}

func goCommand(ctx context.Context, folder string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if folder != "" {
		cmd.Env = append(cmd.Env, "GOWORK=off", "GOFLAGS=")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", arguments[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	result := string(bytes.TrimSpace(out))
	if result == "" && arguments[0] == "list" {
		return "", errors.New("its source is not in the module cache")
	}
	return result, nil
}
