package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestALineIsHeardOrNamed(t *testing.T) {
	for line, good := range map[string]bool{
		"group 123":      true,
		"process 123":    true,
		"gone 123":       true,
		`remove "/a\nb"`: true,
		"done ":          true,
		"group 1":        false, // would kill everything
		"group 0":        false, // would kill ourselves
		"group -5":       false,
		"group x":        false,
		"group":          false,
		"remove /a":      false,
		"dance 123":      false,
		"":               false,
	} {
		tk := task{targets: map[int]int{}}
		err := tk.hear(line)
		if (err == nil) != good {
			t.Errorf("%q: got %v", line, err)
		}
		if err != nil && !strings.Contains(err.Error(), strconv.Quote(line)) {
			t.Errorf("%q is not named in %v", line, err)
		}
	}
}

func TestWhatHasGoneIsNotKilled(t *testing.T) {
	tk := task{targets: map[int]int{}}
	for _, line := range []string{"group 70001", "process 70002", "group 70003", "gone 70001"} {
		if err := tk.hear(line); err != nil {
			t.Fatal(err)
		}
	}
	if len(tk.targets) != 2 || tk.targets[70002] != 70002 || tk.targets[70003] != -70003 {
		t.Errorf("got %v", tk.targets)
	}
}

func TestAGroupIsKilledWithAllItsProcesses(t *testing.T) {
	// The leader has ended; only the group says that the other one is ours.
	leader := exec.Command("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := leader.Output()
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	tk := task{targets: map[int]int{leader.Process.Pid: -leader.Process.Pid}}
	if err := tk.kill(); err != nil {
		t.Error(err)
	}
	if !Ended(child) {
		t.Error("the child is there")
	}
}

func TestWhatIsToBeRemovedMayBeMissing(t *testing.T) {
	folder := t.TempDir()
	full := filepath.Join(folder, "full")
	if err := os.MkdirAll(filepath.Join(full, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	tk := task{paths: []string{filepath.Join(folder, "missing"), full}}
	if err := tk.remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestADeadProcessThatNobodyReapsHasEnded(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only /proc tells")
	}
	// A name that looks like what follows it.
	program := filepath.Join(t.TempDir(), "a) Z 1 1 (")
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if Ended(pid) || Ended(-pid) {
		t.Error("it runs")
	}
	tk := task{targets: map[int]int{pid: -pid}}
	if err := tk.kill(); err != nil { // waits until it is dead
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("it has been reaped: %v", err)
	}
	if !Ended(pid) || !Ended(-pid) {
		t.Error("dead, and not seen")
	}
	_ = cmd.Wait() // killed
	if !Ended(pid) || !Ended(-pid) {
		t.Error("reaped, and not seen")
	}
}
