package framework_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
)

func TestC105AnElectionIsOnInAClusterAndOffElsewhere(t *testing.T) {
	inPod := filepath.Join(t.TempDir(), "namespace")
	noError(t, os.WriteFile(inPod, []byte("team-a\n"), 0o600))
	for _, c := range []struct {
		name      string
		options   framework.LeaderElection
		file      string
		mode      framework.ElectionMode
		namespace string
	}{
		{"in a cluster", framework.LeaderElection{}, inPod, framework.Always, "team-a"},
		{"elsewhere", framework.LeaderElection{}, "/nowhere", framework.Never, ""},
		{"off in a cluster", framework.LeaderElection{Mode: framework.Never}, inPod, framework.Never, "team-a"},
		{"on elsewhere", framework.LeaderElection{Mode: framework.Always, Namespace: "mine"}, "/nowhere", framework.Always, "mine"},
		{"in another namespace", framework.LeaderElection{Namespace: "mine"}, inPod, framework.Always, "mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := framework.ResolvedElection(c.options, "operator", c.file)
			noError(t, err)
			if got.Mode != c.mode || got.Namespace != c.namespace || got.Name != "operator" {
				t.Errorf("%v in %q, named %q", got.Mode, got.Namespace, got.Name)
			}
			other, _ := framework.ResolvedElection(c.options, "operator", c.file)
			if got.Identity == "" || got.Identity == other.Identity {
				t.Errorf("two instances are both %q", got.Identity)
			}
			if got.LeaseDuration != 15*time.Second || got.RenewDeadline != 10*time.Second || got.RetryPeriod != 2*time.Second {
				t.Errorf("durations %v, %v, %v", got.LeaseDuration, got.RenewDeadline, got.RetryPeriod)
			}
		})
	}
}

func TestC105ElectionsThatMakeNoSenseAreRefusedAllAtOnce(t *testing.T) {
	refused := func(o framework.LeaderElection, want ...string) {
		t.Helper()
		_, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Logger: quiet, Scheme: scheme, LeaderElection: o})
		if err == nil {
			t.Fatalf("%+v is not refused", o)
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
	}
	refused(framework.LeaderElection{Mode: 7}, `LeaderElection.Mode "7"`)
	refused(framework.LeaderElection{Mode: framework.Always}, `LeaderElection.Namespace ""`, "outside of a cluster")
	refused(framework.LeaderElection{Mode: framework.Always, Name: "Not A Name", Namespace: "Nor This"},
		`LeaderElection.Name "Not A Name"`, `LeaderElection.Namespace "Nor This"`)
	refused(framework.LeaderElection{LeaseDuration: 1500 * time.Millisecond}, `LeaseDuration "1.5s"`, `RenewDeadline "10s"`)
	refused(framework.LeaderElection{RenewDeadline: 15 * time.Second}, `RenewDeadline "15s"`)
	refused(framework.LeaderElection{RetryPeriod: 9 * time.Second}, `RetryPeriod "9s"`)
	refused(framework.LeaderElection{LeaseDuration: -1, RenewDeadline: -1, RetryPeriod: -1}, "LeaseDuration", "RenewDeadline", "RetryPeriod")
}
