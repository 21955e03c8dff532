package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

func TestCrashIsReportedWithTheEndOfTheLog(t *testing.T) {
	logs := t.TempDir()
	plane := start(t, sandbox.Options{Minimal: true, Logs: logs})
	if err := plane.Err(); err != nil {
		t.Fatalf("before anything happened: %v", err)
	}
	if err := syscall.Kill(plane.Component(sandbox.APIServer).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-plane.Done()
	err := plane.Err()
	if !errors.Is(err, sandbox.ErrComponentDied) {
		t.Fatalf("got %v", err)
	}
	content, readErr := os.ReadFile(filepath.Join(logs, "kube-apiserver.log"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	for _, part := range []string{"kube-apiserver", "signal: killed", lines[len(lines)-1]} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if plane.Component(sandbox.Etcd).PID() == 0 {
		t.Error("the others are to go on until Stop")
	}
}

func TestAComponentThatCannotStartIsReportedWithItsReason(t *testing.T) {
	nothingLeft := temporaryFolder(t)
	_, err := sandbox.Start(t.Context(), sandbox.Options{Minimal: true, FeatureGates: map[string]bool{"NoSuchGate": true}})
	if !errors.Is(err, sandbox.ErrComponentDied) || !strings.Contains(err.Error(), "unrecognized feature gate: NoSuchGate") {
		t.Errorf("got %v", err)
	}
	nothingLeft()
}

// temporaryFolder gives the control planes of this test a folder of their own for
// temporary files. The function returned checks that they have left nothing.
func temporaryFolder(t *testing.T) (check func()) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	return func() {
		t.Helper()
		if pids, err := leftover.Processes(folder); err != nil || len(pids) > 0 {
			t.Errorf("processes are left: %v, %v", pids, err)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
			t.Errorf("files are left: %v, %v", files, err)
		}
	}
}

func TestABootCanBeCancelled(t *testing.T) {
	nothingLeft := temporaryFolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := sandbox.Start(ctx, sandbox.Options{Minimal: true, Progress: func(p sandbox.Progress) {
		if p.Step == sandbox.APIServer {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothingLeft()
}

func TestDataIsKept(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	o := sandbox.Options{Minimal: true, Data: data}
	plane := start(t, o)
	kubectl(t, plane, "create", "namespace", "kept")
	if _, err := sandbox.Start(t.Context(), o); !errors.Is(err, sandbox.ErrDataInUse) {
		t.Errorf("a second one on the folder: got %v", err)
	}
	if err := plane.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	plane = start(t, o)
	kubectl(t, plane, "get", "namespace", "kept")
	// A killed etcd, too, must not lose what it has confirmed.
	kubectl(t, plane, "create", "namespace", "kept-too")
	if err := plane.Component(sandbox.Etcd).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := plane.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	plane = start(t, o)
	kubectl(t, plane, "get", "namespace", "kept", "kept-too")
}

// TestKeptNodesTakePodsAtOnce would fail if a kwok respected its predecessor's leases.
func TestKeptNodesTakePodsAtOnce(t *testing.T) {
	o := sandbox.Options{Data: filepath.Join(t.TempDir(), "data")}
	for _, pod := range []string{"first", "second"} {
		plane := start(t, o)
		kubectl(t, plane, "run", pod, "--image=none")
		kubectl(t, plane, "wait", "pods", "--all", "--for=condition=Ready", "--timeout=15s")
		if err := plane.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTwoAtOnce(t *testing.T) {
	planes := make([]*sandbox.ControlPlane, 2)
	var booting sync.WaitGroup
	for i := range planes {
		booting.Go(func() {
			plane, err := sandbox.Start(t.Context(), sandbox.Options{Minimal: true})
			if err != nil {
				t.Error(err)
				return
			}
			planes[i] = plane
		})
	}
	booting.Wait()
	if t.Failed() {
		return
	}
	kubectl(t, planes[0], "create", "namespace", "first")
	if out, err := try(planes[1], planes[1].Kubeconfig(), "get", "namespace", "first"); err == nil {
		t.Errorf("the second one shows the first one's namespace: %s", out)
	}
	if err := planes[0].Stop(context.Background()); err != nil {
		t.Error(err)
	}
	kubectl(t, planes[1], "get", "namespaces") // not affected
	if err := planes[1].Stop(context.Background()); err != nil {
		t.Error(err)
	}
	for _, plane := range planes {
		if err := leftover.Check(plane.Folder(), addresses(plane)...); err != nil {
			t.Error(err)
		}
	}
}

func TestAGivenPortIsUsedAndMustBeFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	o := sandbox.Options{Minimal: true, Port: port}
	if _, err := sandbox.Start(t.Context(), o); !errors.Is(err, sandbox.ErrPortTaken) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("got %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	plane := start(t, o)
	if got := plane.Servers()[0]; got != fmt.Sprintf("https://127.0.0.1:%d", port) {
		t.Errorf("got %s", got)
	}
}

func TestABinaryThatIsNotASandboxIsRefused(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, binary := range []string{self, "/no/such/program"} {
		if _, err := sandbox.Start(t.Context(), sandbox.Options{Binary: binary}); err == nil || !strings.Contains(err.Error(), "binary "+binary) {
			t.Errorf("%s: got %v", binary, err)
		}
	}
}

// own is the program of TestKilledOwnerLeavesNothing: it starts a control plane, says
// where, and waits to be killed.
func own() int {
	plane, err := sandbox.Start(context.Background(), sandbox.Options{
		Minimal: true, Data: os.Getenv(ownerVariable), Kubeconfig: os.Getenv(kubeconfigVariable),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(plane.Folder())
	fmt.Println(plane.Servers()[0])
	<-plane.Done()
	return 1
}

// startOwner starts a process that owns a control plane, and returns the plane's folder and
// address.
func startOwner(t *testing.T, variables ...string) (owner *exec.Cmd, folder, address string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	owner = exec.Command(self)
	owner.Env = append(os.Environ(), variables...)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill()
		_ = owner.Wait() // both have been done before, if all went well
	})
	lines := bufio.NewScanner(out)
	lines.Scan()
	folder = lines.Text()
	if !lines.Scan() {
		t.Fatal("it did not boot")
	}
	return owner, folder, strings.TrimPrefix(lines.Text(), "https://")
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	owner, folder, address := startOwner(t, ownerVariable+"="+data)
	if pids, err := leftover.Processes(folder); err != nil || len(pids) != 3 { // etcd, kube-apiserver, guard
		t.Fatalf("got processes %v, %v", pids, err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
	eventually(t, func() error { return leftover.Check(folder, address) })
	// The lock went with the clean-up, so the data can be used at once.
	plane := start(t, sandbox.Options{Minimal: true, Data: data})
	kubectl(t, plane, "get", "namespaces")
}

// TestTheNextStartCollectsWhatNobodyOwns kills the owner and its guard at once.
func TestTheNextStartCollectsWhatNobodyOwns(t *testing.T) {
	temporary := temporaryFolder(t)
	other, otherFolder, _ := startOwner(t, ownerVariable+"="+filepath.Join(t.TempDir(), "data"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	owner, folder, address := startOwner(t, ownerVariable+"="+filepath.Join(t.TempDir(), "data"), kubeconfigVariable+"="+kubeconfig)
	pids, err := leftover.Processes(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(guards(t, pids), owner.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = owner.Wait() // it was killed
	for _, path := range []string{folder, kubeconfig} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("nothing is left that could be collected: %v", err)
		}
	}
	// At once: the components that are left do not know yet, and end while it boots.
	plane := start(t, sandbox.Options{Minimal: true})
	if err := leftover.Check(folder, address); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
	// What somebody owns is not touched.
	if out, err := try(plane, filepath.Join(otherFolder, "kubeconfig"), "get", "namespaces"); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if err := plane.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	eventually(t, func() error { return leftover.Check(otherFolder) })
	temporary()
}

// guards returns those of the processes that are guards.
func guards(t *testing.T, pids []int) []int {
	t.Helper()
	var found []int
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(line), "sandbox\x00") {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d guards", len(found))
	}
	return found
}
