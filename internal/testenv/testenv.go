// Package testenv gives tests a real API server, built from the sandbox module: nothing needs to be
// installed and nothing is downloaded but Go modules.
//
//	env, err := testenv.Start(testenv.WebPageCRDs())     // etcd and kube-apiserver
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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

	folder string // of all that follows
	etcd   *etcd
	second *etcd // or nil
	server *apiServer
}

// Start starts etcd and a kube-apiserver, and installs the CustomResourceDefinitions of the
// folders.
func Start(crds ...string) (*Env, error) { return start(nil, nil, crds) }

// Main starts an Env, runs the tests of a package with it, and stops it. It is for TestMain, which
// exits with the code. use gets the Env before the first test.
func Main(m interface{ Run() int }, use func(*Env), crds ...string) (code int) {
	env, err := Start(crds...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(env)
	code = m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// StartWithFlags is Start with flags of the kube-apiserver, without their dashes.
func StartWithFlags(flags map[string]string, crds ...string) (*Env, error) {
	return start(nil, flags, crds)
}

// start starts an Env; the objects of the resource, if there is one, are in a second etcd.
func start(resource *schema.GroupResource, flags map[string]string, crds []string) (*Env, error) {
	folder, err := os.MkdirTemp(temporary(), "evenkeel-env-")
	if err != nil {
		return nil, fmt.Errorf("testenv: %w", err)
	}
	e := &Env{folder: folder}
	if err := e.boot(resource, flags, crds); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// temporary is the folder for temporary files, unless the paths of sockets below it would be too
// long: some systems allow 103 bytes, and ours need up to 48.
func temporary() string {
	if folder := os.TempDir(); len(folder) <= 103-48 {
		return folder
	}
	return "/tmp"
}

func (e *Env) boot(resource *schema.GroupResource, flags map[string]string, crds []string) (err error) {
	if err := writeKeys(e.keys()); err != nil {
		return err
	}
	if e.etcd, err = e.startEtcd("etcd"); err != nil {
		return err
	}
	if resource != nil {
		if e.second, err = e.startEtcd("second"); err != nil {
			return err
		}
		flags = maps.Clone(flags)
		flags["etcd-servers-overrides"] = override(resource, e.second)
	}
	if e.server, err = newAPIServer(e.folder, e.keys(), e.etcd.url(), flags); err != nil {
		return err
	}
	e.Config = e.server.config
	if err := e.server.start(); err != nil {
		return err
	}
	return InstallCRDs(e.Config, crds...)
}

// startEtcd returns the etcd even if it does not start, for its end.
func (e *Env) startEtcd(name string) (*etcd, error) {
	started, err := newEtcd(filepath.Join(e.folder, name))
	if err != nil {
		return nil, err
	}
	return started, started.start()
}

// keys is the folder of the keys.
func (e *Env) keys() string { return filepath.Join(e.folder, "keys") }

// Stop stops everything and removes what it left.
func (e *Env) Stop() error {
	var err error
	if e.server != nil {
		err = errors.Join(e.server.kill(), e.server.close())
	}
	for _, store := range []*etcd{e.etcd, e.second} {
		if store != nil {
			err = errors.Join(err, store.kill())
		}
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
