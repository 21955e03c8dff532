package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/await"
	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

// ownerVariable makes this test program an owner that is to be killed; see
// TestKilledOwnerLeavesNothing.
const ownerVariable = "EVENKEEL_SANDBOX_TEST_OWNER"

// kubeconfigVariable is where that one writes its kubeconfig; may be empty.
const kubeconfigVariable = "EVENKEEL_SANDBOX_TEST_KUBECONFIG"

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		os.Exit(own())
	}
	if os.Getenv(strangerVariable) != "" {
		os.Exit(beStranger())
	}
	// Found the way a user's test finds it, and once for all tests.
	binary, err := sandbox.FindBinary(context.Background(), "")
	if err == nil {
		err = os.Setenv(sandbox.BinaryVariable, binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// start boots a control plane that is stopped at the end of the test, and then must
// have left nothing behind.
func start(t *testing.T, o sandbox.Options) *sandbox.ControlPlane {
	t.Helper()
	plane, err := sandbox.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := leftover.Check(plane.Folder(), addresses(plane)...); err != nil {
			t.Error(err)
		}
	})
	return plane
}

func addresses(plane *sandbox.ControlPlane) []string {
	var all []string
	for _, server := range plane.Servers() {
		u, err := url.Parse(server)
		if err != nil {
			panic(err)
		}
		all = append(all, u.Host)
	}
	return all
}

// try runs kubectl and returns what it prints.
func try(plane *sandbox.ControlPlane, kubeconfig string, arguments ...string) (string, error) {
	cmd := exec.Command(plane.Binary(), append([]string{"kubectl", "--kubeconfig=" + kubeconfig}, arguments...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// kubectl runs kubectl as the administrator; it has to succeed.
func kubectl(t *testing.T, plane *sandbox.ControlPlane, arguments ...string) string {
	t.Helper()
	out, err := try(plane, plane.Kubeconfig(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually repeats check until it returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.Success(t, 30*time.Second, check)
}

// want returns an error unless got is want.
func want(got, want string) error {
	if got != want {
		return errors.New("got " + got + ", want " + want)
	}
	return nil
}
