package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
)

const (
	// bootAttempts bounds how often a boot is repeated because another program took
	// a port between our choosing and binding it.
	bootAttempts = 3
	portClash    = "address already in use"

	// runVariable marks every process of a control plane with its folder.
	runVariable = "EVENKEEL_SANDBOX_RUN"
	// parentVariable tells a component whom not to outlive (internal/components).
	parentVariable = "EVENKEEL_SANDBOX_PARENT"
)

// Start boots a control plane and returns once it is ready: every kube-apiserver
// answers, the nodes take pods, and pods can be created in the namespace "default".
// ctx bounds only the boot. The caller must call [ControlPlane.Stop]; should its
// process die before, everything is cleaned up all the same.
//
// Errors name the option or the component; see the Err variables. If a component
// fails, the end of its log is in the error.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	return start(ctx, options, pickPorts)
}

// portPicker chooses ports for a number of kube-apiservers, the first of them fixed
// unless 0. A test has one that chooses badly.
type portPicker func(apiservers, fixed int) (ports, error)

func start(ctx context.Context, options Options, pick portPicker) (*ControlPlane, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	binary, err := FindBinary(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	version, err := kubernetesVersion(binary)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("not ready after %s", o.StartTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		p := &ControlPlane{options: o, binary: binary, kubernetes: version, done: make(chan struct{})}
		err := p.boot(ctx, pick)
		if err == nil {
			return p, nil
		}
		// What failed to boot has nothing worth an orderly stop.
		now, cancel := context.WithCancel(ctx)
		cancel()
		err = errors.Join(err, p.Stop(now))
		if attempt == bootAttempts || !strings.Contains(err.Error(), portClash) || errors.Is(err, ErrPortTaken) {
			return nil, err
		}
	}
}

func (p *ControlPlane) boot(ctx context.Context, pick portPicker) error {
	var err error
	if p.layout.ports, err = pick(p.options.APIServers, p.options.Port); err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	// Nothing is worth waiting for once a component has died.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = p.startServers(ctx)
	if err == nil && !p.options.Minimal {
		err = p.startControllers(ctx)
	}
	if died := p.Err(); died != nil {
		return died
	}
	// Once more: components notice only after a while that their owner has been killed.
	collect(filepath.Dir(p.layout.work))
	return err
}

// prepare makes everything that is needed before the first process.
func (p *ControlPlane) prepare() error {
	if err := checkSpace(os.TempDir()); err != nil {
		return err
	}
	var err error
	if p.options.Data != "" {
		if p.lock, err = openData(p.options.Data, p.kubernetes); err != nil {
			return err
		}
		if err := checkSpace(p.options.Data); err != nil {
			return err
		}
	}
	if err := p.makeWorkFolder(); err != nil {
		return err
	}
	if p.ca, err = openPKI(p.layout.pki("")); err != nil {
		return err
	}
	admin, err := p.ca.client(adminUser, mastersGroup)
	if err != nil {
		return err
	}
	if p.client, err = newClient(p.ca, admin); err != nil {
		return err
	}
	etcdCA, etcdClient, err := createEtcdPKI(p.layout.etcdPKI(""))
	if err != nil {
		return err
	}
	if p.etcd, err = newClient(etcdCA, etcdClient); err != nil {
		return err
	}
	if err := p.writeKubeconfigs(admin); err != nil {
		return err
	}
	p.components = p.plan()
	return nil
}

// makeWorkFolder makes the temporary folder, which the guard is to remove. It first removes those
// that others have left.
func (p *ControlPlane) makeWorkFolder() error {
	// TMPDIR may be relative, and the command may go elsewhere.
	temporary, err := filepath.Abs(os.TempDir())
	if err != nil {
		return fmt.Errorf("sandbox: temporary folder: %w", err)
	}
	collect(temporary)
	name := workPrefix + strings.ToLower(rand.Text()[:10])
	p.layout.work = filepath.Join(temporary, name)
	p.layout.logs = filepath.Join(p.layout.work, "logs")
	if p.options.Logs != "" {
		p.layout.logs = p.options.Logs
	}
	p.layout.state = filepath.Join(p.layout.work, "state")
	if p.options.Data != "" {
		p.layout.state = p.options.Data
	}
	draft := filepath.Join(temporary, draftPrefix+name)
	if p.owned, err = makeOwned(draft); err != nil {
		return fmt.Errorf("sandbox: temporary folder: %w", err)
	}
	if err := p.startGuard(draft); err != nil {
		return errors.Join(err, os.RemoveAll(draft))
	}
	if err := os.Rename(draft, p.layout.work); err != nil {
		return errors.Join(fmt.Errorf("sandbox: temporary folder: %w", err), os.RemoveAll(draft))
	}
	if err := os.MkdirAll(p.layout.logs, 0o700); err != nil {
		return fmt.Errorf("sandbox: logs %s: %w", p.layout.logs, pathCause(err))
	}
	if p.options.AuditLog == "" {
		return nil
	}
	if err := os.WriteFile(p.layout.auditPolicy(), []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("sandbox: audit policy: %w", err)
	}
	return nil
}

// startGuard starts the guard. It keeps the folders locked until it has cleaned up.
func (p *ControlPlane) startGuard(draft string) (err error) {
	keep := []*os.File{p.owned}
	if p.lock != nil {
		keep = append(keep, p.lock)
	}
	if p.guard, err = guard.Start(p.binary, p.environment(), keep...); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := errors.Join(p.guard.Remove(draft), p.guard.Remove(p.layout.work)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// environment is what the components see of our environment: all but what they
// would take for settings of theirs.
func (p *ControlPlane) environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCD_") && !strings.HasPrefix(variable, "KUBE") && !strings.HasPrefix(variable, "KWOK_") {
			kept = append(kept, variable)
		}
	}
	return append(kept,
		runVariable+"="+p.layout.work,
		parentVariable+"="+strconv.Itoa(os.Getpid()),
		"HOME="+p.layout.work, // kwok reads ~/.kwok/kwok.yaml whatever it is told
	)
}

func (p *ControlPlane) writeKubeconfigs(admin pair) error {
	if p.options.Kubeconfig == "" {
		p.options.Kubeconfig = filepath.Join(p.layout.work, "kubeconfig")
	}
	if err := writeOwned(p.layout.work, p.Kubeconfigs()); err != nil {
		return err
	}
	for number, file := range p.Kubeconfigs() {
		if err := checkKubeconfigFile(file); err != nil {
			return err
		}
		held, err := createKubeconfig(file, kubeconfig(p.layout.server(number+1), p.ca.pem.cert, admin))
		if err != nil {
			return err
		}
		p.kubeconfigs = append(p.kubeconfigs, held)
		// Only now, for it could be another control plane's.
		if err := p.guard.Remove(file); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	if p.options.Minimal {
		return nil
	}
	// The controllers' names are what audit logs show; that they may do everything is
	// simpler than upstream's roles, which assume one identity per controller.
	for component, user := range map[string]string{
		ControllerManager: "system:kube-controller-manager", Scheduler: "system:kube-scheduler", Kwok: "system:kwok",
	} {
		login, err := p.ca.client(user, mastersGroup)
		if err != nil {
			return err
		}
		content := kubeconfig(p.layout.server(1), p.ca.pem.cert, login)
		if err := os.WriteFile(p.layout.login(component), content, 0o600); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	return nil
}

// plan returns the components, none started.
func (p *ControlPlane) plan() []*Component {
	o, l := p.options, p.layout
	plan := []*Component{p.component(Etcd, Etcd, etcdArguments(o, l), p.etcd.healthy(l.etcdURL()+"/health"))}
	for i := range l.ports.apiservers {
		name := numbered(APIServer, i+1)
		plan = append(plan, p.component(name, APIServer, apiServerArguments(o, l, i+1), p.client.healthy(l.server(i+1)+"/readyz")))
	}
	if o.Minimal {
		return plan
	}
	health := func(port int) func(context.Context) error {
		return p.client.healthy("https://" + address(port) + "/healthz")
	}
	// kwok answers nobody; whether it works is seen in the nodes.
	unknown := func(context.Context) error { return nil }
	kwok := p.component(Kwok, Kwok, kwokArguments(o, l), unknown)
	kwok.before = func(ctx context.Context) error { return releaseNodes(ctx, p.client, l.server(1)) }
	return append(plan,
		p.component(ControllerManager, ControllerManager, controllerManagerArguments(o, l), health(l.ports.controllerManager)),
		p.component(Scheduler, Scheduler, schedulerArguments(o, l), health(l.ports.scheduler)),
		kwok,
	)
}

func (p *ControlPlane) component(name, program string, arguments []string, ready func(context.Context) error) *Component {
	return &Component{
		name: name, program: program, arguments: arguments, log: p.layout.log(name), binary: p.binary,
		env: p.environment(), owned: p.owned, guard: p.guard, stopAfter: p.options.StopTimeout, ready: ready, died: p.finish,
	}
}

// startServers starts etcd, and then all kube-apiservers at once.
func (p *ControlPlane) startServers(ctx context.Context) error {
	etcd := p.Component(Etcd)
	if err := p.step(Etcd, func() error { return etcd.Start(ctx) }); err != nil {
		return err
	}
	return p.startAll(ctx, rankAPIServer)
}

// startControllers starts everything else, and waits until pods can run.
func (p *ControlPlane) startControllers(ctx context.Context) error {
	if err := p.startAll(ctx, rankClient); err != nil {
		return err
	}
	server := p.layout.server(1)
	if n := p.options.Nodes; n > 0 {
		err := p.step(fmt.Sprintf("nodes (%d)", n), func() error {
			if err := createNodes(ctx, p.client, server, n); err != nil {
				return err
			}
			if err := waitNodes(ctx, p.client, server, n); err != nil {
				return fmt.Errorf("sandbox: nodes: %w\n%s", err, logTail(p.layout.log(Kwok)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	// Until it is there, pods in the namespace are refused.
	account := p.client.healthy(server + "/api/v1/namespaces/default/serviceaccounts/default")
	if err := account(ctx); err != nil {
		return fmt.Errorf("sandbox: the service account default/default is missing: %w\n%s", err, logTail(p.layout.log(ControllerManager)))
	}
	return nil
}

// startAll starts the components of a rank side by side.
func (p *ControlPlane) startAll(ctx context.Context, r rank) error {
	failures := make([]error, len(p.components))
	var starting sync.WaitGroup
	var names []string
	for i, c := range p.components {
		if c.rank() == r {
			names = append(names, c.name)
			starting.Go(func() { failures[i] = c.Start(ctx) })
		}
	}
	return p.step(strings.Join(names, ", "), func() error {
		starting.Wait()
		return errors.Join(failures...)
	})
}

func (p *ControlPlane) step(name string, do func() error) error {
	report := p.options.Progress
	if report == nil {
		report = func(Progress) {}
	}
	report(Progress{Step: name})
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	report(Progress{Step: name, Done: true, Took: time.Since(began)})
	return nil
}
