package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
)

// ControlPlane is a running control plane; see [Start]. All methods may be called
// from several goroutines.
type ControlPlane struct {
	options    Options
	binary     string
	kubernetes string
	layout     layout
	ca         *authority
	client     *client // of the kube-apiservers and controllers
	etcd       *client
	guard      *guard.Guard
	lock       *os.File     // of the data folder; nil without one
	owned      *os.File     // of the temporary folder
	components []*Component // in the order of boot
	// kubeconfigs are the administrator's files, locked; they end with us.
	kubeconfigs []*os.File

	done chan struct{}
	// mu guards err and whether done is closed.
	mu  sync.Mutex
	err error

	stop    sync.Once
	stopErr error
}

// Binary returns the path of the sandbox program the components run.
func (p *ControlPlane) Binary() string { return p.binary }

// KubernetesVersion returns the version of Kubernetes, such as "v1.37.1".
func (p *ControlPlane) KubernetesVersion() string { return p.kubernetes }

// Folder returns the temporary folder with logs and kubeconfigs. It vanishes when
// the control plane stops.
func (p *ControlPlane) Folder() string { return p.layout.work }

// Kubeconfigs returns the paths of the administrator's kubeconfigs, one for each
// kube-apiserver.
func (p *ControlPlane) Kubeconfigs() []string {
	var files []string
	for number := range p.layout.ports.apiservers {
		files = append(files, numbered(p.options.Kubeconfig, number+1))
	}
	return files
}

// Kubeconfig returns the path of the first kube-apiserver's kubeconfig.
func (p *ControlPlane) Kubeconfig() string { return p.Kubeconfigs()[0] }

// Servers returns the URLs of the kube-apiservers.
func (p *ControlPlane) Servers() []string {
	var urls []string
	for number := range p.layout.ports.apiservers {
		urls = append(urls, p.layout.server(number+1))
	}
	return urls
}

// KubeconfigFor returns the content of a new kubeconfig, for the first
// kube-apiserver, by which the bearer is the user given, in the groups given. RBAC
// decides what that user may do: nothing, until a test grants it. Use it to see
// whether a program gets by with the rights it asks for.
func (p *ControlPlane) KubeconfigFor(user string, groups ...string) ([]byte, error) {
	if user == "" {
		return nil, errors.New("sandbox: kubeconfig for a user: user \"\": must not be empty")
	}
	client, err := p.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return kubeconfig(p.layout.server(1), p.ca.pem.cert, client), nil
}

// Components returns all components in the order in which they were started.
func (p *ControlPlane) Components() []*Component { return slices.Clone(p.components) }

// Component returns the component with the name, such as [Etcd] or
// "kube-apiserver-2", and nil if there is none.
func (p *ControlPlane) Component(name string) *Component {
	for _, c := range p.components {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Done is closed when the control plane is stopped or a component has died that
// nobody asked to; [ControlPlane.Err] tells which. The other components then still
// run, until [ControlPlane.Stop].
func (p *ControlPlane) Done() <-chan struct{} { return p.done }

// Err returns nil while all is well, an error wrapping [ErrComponentDied] with the
// end of the log after a component died, and else [ErrStopped].
func (p *ControlPlane) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// finish records the first reason for which the control plane is no longer whole.
func (p *ControlPlane) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.done)
	}
}

// Stop stops all components in order (clients before kube-apiserver before etcd),
// and removes everything that is not to be kept. When ctx is done it kills what
// still runs instead of waiting for it. Further calls return the first one's
// result.
func (p *ControlPlane) Stop(ctx context.Context) error {
	p.stop.Do(func() {
		p.finish(ErrStopped)
		p.stopErr = p.shutdown(ctx)
	})
	return p.stopErr
}

func (p *ControlPlane) shutdown(ctx context.Context) error {
	all := p.makeStoppable()
	for _, rank := range []rank{rankClient, rankAPIServer, rankEtcd} {
		all = errors.Join(all, p.stopRank(ctx, rank))
	}
	for _, c := range []*client{p.client, p.etcd} {
		if c != nil {
			c.close()
		}
	}
	paths := []string{p.layout.work}
	for _, file := range p.kubeconfigs {
		paths = append(paths, file.Name())
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			all = errors.Join(all, fmt.Errorf("sandbox: clean up: %w", err))
		}
	}
	for _, file := range p.kubeconfigs {
		all = errors.Join(all, file.Close()) // unlocks it, once it is gone
	}
	if p.guard != nil {
		if err := p.guard.Done(); err != nil {
			all = errors.Join(all, fmt.Errorf("sandbox: the guard process has died, which cleans up after a SIGKILL: %w", err))
		}
	}
	for _, lock := range []*os.File{p.lock, p.owned} {
		if lock != nil {
			all = errors.Join(all, lock.Close())
		}
	}
	if p.layout.work != "" {
		collect(filepath.Dir(p.layout.work))
	}
	return all
}

// makeStoppable undoes what fault tests did and what would keep a component from
// stopping in order: each needs the one below it for that.
func (p *ControlPlane) makeStoppable() error {
	var all error
	etcdRuns := false
	for _, c := range p.components {
		process, err := c.signal(syscall.SIGCONT, false)
		all = errors.Join(all, err)
		etcdRuns = etcdRuns || c.program == Etcd && process != nil
	}
	for _, c := range p.components {
		// Without etcd it would try to take leave of it until it is killed anyway.
		if c.program == APIServer && !etcdRuns {
			all = errors.Join(all, c.Kill())
		}
	}
	return all
}

// rank orders the components for stopping: a client of another one goes first.
type rank int

const (
	rankEtcd rank = iota
	rankAPIServer
	rankClient
)

func (c *Component) rank() rank {
	switch c.program {
	case Etcd:
		return rankEtcd
	case APIServer:
		return rankAPIServer
	default:
		return rankClient
	}
}

func (p *ControlPlane) stopRank(ctx context.Context, r rank) error {
	failures := make([]error, len(p.components))
	var stopping sync.WaitGroup
	for i, c := range p.components {
		if c.rank() == r {
			stopping.Go(func() { failures[i] = c.Stop(ctx) })
		}
	}
	stopping.Wait()
	return errors.Join(failures...)
}

// Guard has a process killed, with its whole process group if group is set, should
// this process die without having stopped the control plane: a child that must not
// be left behind. Call release when the child has ended.
func (p *ControlPlane) Guard(pid int, group bool) (release func(), err error) {
	tell := p.guard.Process
	if group {
		tell = p.guard.Group
	}
	if err := tell(pid); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	// A guard that is gone by then needs no telling.
	return func() { _ = p.guard.Gone(pid) }, nil
}
