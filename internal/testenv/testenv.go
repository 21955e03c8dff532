// Package testenv gives tests a real API server, built from the sandbox module: nothing needs to be
// installed and nothing is downloaded but Go modules.
//
//	env, err := testenv.Start(testenv.WebPageCRDs())     // etcd and kube-apiserver, by envtest
//	defer env.Stop()
//	plane, err := testenv.StartSandbox(ctx)              // with the controller-manager and simulated nodes
//	defer plane.Stop()
//
// An Env can also tell what was really written, and have a second API server whose cache can be
// made stale:
//
//	truth, err := env.Truth(ctx)                         // every write from now on, as etcd tells it
//	err = truth.WaitNow(ctx)
//	truth.Replay("/registry/pods/", func(revision int64, live map[string]testenv.Event) { ... })
//	truth, err = env.SecondTruth(ctx)                    // of an Env that StartWithSecondEtcd has started
//	err = env.Pause()                                    // a hanging machine; env.Crash and env.Backup: worse
//	stale, err := env.StartStaleServer()                 // stale.Config, stale.Pause(), stale.Resume()
//
// The sandbox program is taken from EVENKEEL_SANDBOX, or built into bin/ once.
//
// # Concurrency
//
// Everything may be used from several goroutines and from test processes at the same time.
package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Root is the root folder of the checkout.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// WebPageCRDs is the folder of the WebPage sample's generated CustomResourceDefinitions.
func WebPageCRDs() string {
	return filepath.Join(Root(), "samples", "webpage", "config", "crd", "bases")
}

// Binary returns the path of the sandbox program and builds it if need be.
var Binary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("EVENKEEL_SANDBOX"); given != "" {
		return filepath.Abs(given)
	}
	target := filepath.Join(Root(), "bin", "sandbox")
	unlock, err := lock(target + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	build := exec.Command("go", "build", "-C", filepath.Join(Root(), "sandbox"), "-trimpath", "-ldflags", "-s -w", "-o", target, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sandbox: %w\n%s", err, output)
	}
	return target, nil
})

// lock keeps test processes that run at the same time from building on each other's feet.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Env is an API server without controllers: owner references are not followed, Deployments make no
// Pods, namespaces never end.
type Env struct {
	// Config is an administrator's.
	Config *rest.Config

	environment *envtest.Environment
	second      *envtest.Etcd // or nil
	folder      string
	again       []func() // end what was started anew
}

// Start starts etcd and a kube-apiserver, and installs the CustomResourceDefinitions of the
// folders.
func Start(crds ...string) (*Env, error) { return StartWithFlags(nil, crds...) }

// StartWithFlags is Start with flags of the kube-apiserver, without their dashes.
func StartWithFlags(flags map[string]string, crds ...string) (*Env, error) {
	folder, err := assets()
	if err != nil {
		return nil, err
	}
	return startFrom(folder, flags, crds)
}

// assets makes a folder of the programs.
func assets() (folder string, err error) {
	binary, err := Binary()
	if err != nil {
		return "", err
	}
	folder, err = os.MkdirTemp("", "evenkeel-assets-")
	if err != nil {
		return "", err
	}
	if output, err := exec.Command(binary, "assets", folder).CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("sandbox assets: %w\n%s", err, output), os.RemoveAll(folder))
	}
	return folder, nil
}

// startFrom starts the programs of a folder, which it removes if that fails.
func startFrom(folder string, flags map[string]string, crds []string) (*Env, error) {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    folder,
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	for name, value := range flags {
		environment.ControlPlane.GetAPIServer().Configure().Set(name, value)
	}
	config, err := environment.Start()
	if err != nil {
		return nil, errors.Join(err, environment.Stop(), os.RemoveAll(folder))
	}
	return &Env{Config: config, environment: environment, folder: folder}, nil
}

// Stop stops everything and removes what it left.
func (e *Env) Stop() error {
	for _, end := range slices.Backward(e.again) {
		end()
	}
	err := e.environment.Stop()
	if e.second != nil {
		err = errors.Join(err, e.second.Stop())
	}
	return errors.Join(err, os.RemoveAll(e.folder))
}

// Plane is a whole control plane with simulated nodes.
type Plane struct {
	// Config is an administrator's.
	Config *rest.Config

	command *exec.Cmd
	stdin   io.Closer
}

// StartSandbox starts a whole control plane; args are further flags of sandbox up.
func StartSandbox(ctx context.Context, args ...string) (*Plane, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	// The command that the sandbox runs tells us the kubeconfig, and ends when we close its input.
	args = append(append([]string{"up"}, args...), "--", "sh", "-c", `echo "$KUBECONFIG"; cat >/dev/null`)
	command := exec.CommandContext(ctx, binary, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	plane := &Plane{command: command, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(errors.New("the sandbox did not start"), plane.Stop())
	}
	if plane.Config, err = clientcmd.BuildConfigFromFlags("", strings.TrimSpace(line)); err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return plane, nil
}

// Stop stops all processes and returns an error if the sandbox failed.
func (p *Plane) Stop() error {
	return errors.Join(p.stdin.Close(), p.command.Wait())
}
