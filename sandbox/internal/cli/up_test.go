package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
)

func runProgram(program string, arguments ...string) (string, error) {
	out, err := exec.Command(program, arguments...).CombinedOutput()
	return string(out), err
}

// script runs up with a shell script as the command. $1 in the script is a folder for
// notes, $EVENKEEL_SANDBOX the program.
func script(t *testing.T, text string, flags ...string) (r *run, notes string) {
	t.Helper()
	notes = t.TempDir()
	arguments := append([]string{"up", "--minimal"}, flags...)
	return prepare(t, append(arguments, "--", "sh", "-c", text, "sh", notes)...), notes
}

func TestUpRunsTheCommandAndTakesItsExitCode(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	r, notes := script(t, `
		test "$KUBECONFIG" = "$2" || echo "KUBECONFIG is $KUBECONFIG"
		$EVENKEEL_SANDBOX kubectl create namespace one >/dev/null
		KUBECONFIG=$SANDBOX_KUBECONFIG_2 $EVENKEEL_SANDBOX kubectl get namespace one -o name
		read line; echo "read $line"
		(sleep 1000 & echo $! > $1/pid)
		exit 7`, "--apiservers=2", "--kubeconfig="+kubeconfig)
	r.cmd.Args = append(r.cmd.Args, kubeconfig)
	r.cmd.Stdin = strings.NewReader("hello\n")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.wait(7)
	if got := r.stdout.String(); got != "namespace/one\nread hello\n" {
		t.Errorf("standard output is the command's alone, but is %q", got)
	}
	if got := r.stderr.String(); got != "" {
		t.Errorf("not on a terminal we are to be quiet: %q", got)
	}
	if _, err := os.Stat(kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
	pid, _ := strconv.Atoi(awaitFile(t, filepath.Join(notes, "pid")))
	if runs(pid) {
		t.Error("what the command had left running still runs")
	}
}

func TestACommandThatCannotRunIsNamed(t *testing.T) {
	r := sandboxed(t, exitNotFound, "up", "--minimal", "--", "no-such-program")
	contains(t, "standard error", r.stderr.String(), "no-such-program", "not found")
}

func TestASignalledCommandEndsLikeInAShell(t *testing.T) {
	r, _ := script(t, `kill -KILL $$`)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.wait(exitSignalled + int(syscall.SIGKILL))
}

func TestSignalsAreForTheCommand(t *testing.T) {
	r, notes := script(t, `trap 'exit 5' TERM; echo ready > $1/ready; while :; do sleep 0.1; done`)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(notes, "ready"))
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.wait(5)
}

func TestStayingEndsWithCtrlC(t *testing.T) {
	r := prepare(t, "up", "--minimal")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r.cmd.Stdout = out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := awaitFile(t, out.Name())
	kubeconfig, found := strings.CutPrefix(line, "export KUBECONFIG=")
	if !found {
		t.Errorf("printed %q", line)
	}
	if got, err := runProgram(binary, "kubectl", "--kubeconfig="+kubeconfig, "get", "--raw=/readyz"); err != nil || got != "ok" {
		t.Errorf("got %s, %v", got, err)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait(0)
}

// hostile are paths that a shell would run, split or change.
var hostile = []string{
	"/a b", "/$(touch pwned)", "/`touch pwned`", "/a; touch pwned", "/a'b", "/'; touch pwned; '", `/a"b`, `/a\b`, "/$HOME", "/*", "/a&b|c>d",
	"/a\nb", "/a\ttouch", "/!x", "/a#b", "/~", "/ü", "/-n", "/{a,b}", "/a=b", "/\x01", "/a\\'b", "",
}

func TestWhatIsPrintedCanBeEvaluated(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for _, path := range hostile {
			folder := t.TempDir()
			cmd := exec.Command(shell, "-c", `eval "$1"; printf %s "$KUBECONFIG"`, shell, exported("KUBECONFIG="+path))
			cmd.Dir = folder
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != path {
				t.Errorf("%s: %q: got %q, %v", shell, path, out, err)
			}
			if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
				t.Errorf("%s: %q was run: %v, %v", shell, path, files, err)
			}
		}
	}
	if got := exported("KUBECONFIG=/tmp/a-b_c.1/kubeconfig"); got != "export KUBECONFIG=/tmp/a-b_c.1/kubeconfig" {
		t.Errorf("a plain path is quoted: %s", got)
	}
}

func TestAHostileKubeconfigIsPrintedQuoted(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "a b'; touch pwned; $(touch pwned)")
	r := prepare(t, "up", "--minimal", "--apiservers=2", "--kubeconfig="+kubeconfig)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r.cmd.Stdout = out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, out.Name())
	folder := t.TempDir()
	shell := exec.Command("sh", "-c", `eval "$(cat "$1")"; printf "%s\n%s" "$KUBECONFIG" "$SANDBOX_KUBECONFIG_2"`, "sh", out.Name())
	shell.Dir = folder
	if got, err := shell.CombinedOutput(); err != nil || string(got) != kubeconfig+"\n"+kubeconfig+"-2" {
		t.Errorf("got %q, %v", got, err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("the path was run: %v, %v", files, err)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait(0)
}

func TestAHangUpThatIsIgnoredStaysIgnored(t *testing.T) {
	r := prepare(t)
	ready := filepath.Join(t.TempDir(), "ready")
	r.cmd.Path, r.cmd.Args = "/bin/sh", []string{
		"sh", "-c", `trap "" HUP; exec "$0" "$@"`, binary,
		"up", "--minimal", "--", "sh", "-c", "echo ready > " + ready + "; sleep 1; exit 6",
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready)
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.wait(6)
}

// The command may change its folder, and still finds the KUBECONFIG.
func TestATemporaryFolderMayBeRelative(t *testing.T) {
	r := prepare(t, "up", "--minimal", "--", "sh", "-c", "cd / && kubectl get --raw=/readyz")
	r.cmd.Dir = r.temporary
	r.cmd.Env = append(r.cmd.Env, "TMPDIR=.")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.wait(0)
	contains(t, "standard output", r.stdout.String(), "ok")
}

func TestCtrlCWhileBooting(t *testing.T) {
	r := prepare(t, "up", "--minimal")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitComponent(t, r.folder(), "etcd")
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait(exitSignalled + int(syscall.SIGINT))
	contains(t, "standard error", r.stderr.String(), "interrupted")
}

// awaitComponent waits until the component of the control plane runs and returns its
// process.
func awaitComponent(t *testing.T, folder, name string) int {
	t.Helper()
	found := 0
	eventually(t, func() error {
		pids, err := leftover.Processes(folder)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasPrefix(string(line), name+"\x00") {
				found = pid
				return nil
			}
		}
		return fmt.Errorf("no %s among %v", name, pids)
	})
	return found
}

func TestADeadComponentEndsTheCommandAndIsReported(t *testing.T) {
	r, notes := script(t, `echo $$ > $1/pid; while :; do sleep 0.1; done`)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	command, _ := strconv.Atoi(awaitFile(t, filepath.Join(notes, "pid")))
	if err := syscall.Kill(awaitComponent(t, r.folder(), "kube-apiserver"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.wait(exitFailure)
	contains(t, "standard error", r.stderr.String(), "kube-apiserver: component died: signal: killed", "last lines of kube-apiserver.log:\n  ")
	if runs(command) {
		t.Error("the command still runs")
	}
}

func TestKilledParentLeavesNothing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	r, notes := script(t, `sleep 1000 & echo $! > $1/pid; trap '' TERM; wait`, "--kubeconfig="+kubeconfig)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, _ := strconv.Atoi(awaitFile(t, filepath.Join(notes, "pid")))
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if runs(child) {
			return errors.New("a child of the command is left")
		}
		if _, err := os.Stat(kubeconfig); !errors.Is(err, os.ErrNotExist) {
			return errors.New("the kubeconfig is left")
		}
		return r.left()
	})
	r.wait(-1)
}

// TestAServerEndsWithItsParent is what saves users of envtest, who have no guard.
func TestAServerEndsWithItsParent(t *testing.T) {
	stays := orphan(t, "EVENKEEL_SANDBOX_OUTLIVE_PARENT=1")
	ends := orphan(t)
	eventually(t, func() error {
		if runs(ends) {
			return errors.New("etcd has outlived its parent")
		}
		return nil
	})
	if !runs(stays) {
		t.Error("the one that was to outlive its parent has ended")
	}
}

// orphan starts etcd, kills the shell that started it, and returns etcd's process.
func orphan(t *testing.T, variables ...string) int {
	t.Helper()
	folder := t.TempDir()
	etcd := filepath.Join(folder, "etcd")
	if err := os.Symlink(binary, etcd); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command("sh", "-c", `"$0/etcd" --data-dir "$0/data" --listen-client-urls http://127.0.0.1:0 \
		--advertise-client-urls http://127.0.0.1:0 --listen-peer-urls http://127.0.0.1:0 >/dev/null 2>&1 & echo $! > "$0/pid"; wait`, folder)
	parent.Env = append(os.Environ(), variables...)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(awaitFile(t, filepath.Join(folder, "pid")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it should be gone
		eventually(t, func() error {
			if runs(pid) {
				return errors.New("etcd is still there")
			}
			return nil
		})
	})
	eventually(t, func() error { // until it is etcd that runs, no longer the shell
		_, err := os.Stat(filepath.Join(folder, "data"))
		return err
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	return pid
}

// runs is false for a process that was killed and is not reaped yet: that is up to whoever adopted
// it.
func runs(pid int) bool { return !guard.Ended(pid) }

// TestOnATerminal shows progress, a command that reads from the terminal, and Ctrl-C,
// which must reach the command once.
func TestOnATerminal(t *testing.T) {
	r, notes := script(t, `read line; echo "read $line"; trap 'echo INT >> $1/signals; exit 3' INT
		echo ready > $1/ready; while :; do sleep 0.1; done`)
	r.cmd.Stdout, r.cmd.Stderr = nil, nil
	terminal, err := pty.Start(r.cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	shown := make(chan string)
	go func() {
		var all []byte
		buffer := make([]byte, 4096)
		for {
			n, err := terminal.Read(buffer)
			all = append(all, buffer[:n]...)
			if err != nil { // Linux says EIO when the other side has closed
				shown <- string(all)
				return
			}
		}
	}()
	write := func(text string) {
		if _, err := terminal.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("hello\n")
	awaitFile(t, filepath.Join(notes, "ready"))
	write("\x03") // Ctrl-C
	r.wait(3)
	contains(t, "the terminal", <-shown, "etcd ...", "kube-apiserver ...", "  kube-apiserver\r\n", "read hello")
	if got := awaitFile(t, filepath.Join(notes, "signals")); got != "INT" {
		t.Errorf("the command got %q", got)
	}
}
