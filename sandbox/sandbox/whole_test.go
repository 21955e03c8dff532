package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

// TestWholeControlPlane boots once, with everything, for all that can be shown on it.
func TestWholeControlPlane(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	var steps []sandbox.Progress
	plane := start(t, sandbox.Options{
		APIServers:   2,
		Nodes:        3,
		AuditLog:     audit,
		FeatureGates: map[string]bool{"ContextualLogging": true},
		Progress:     func(p sandbox.Progress) { steps = append(steps, p) },
	})
	t.Run("progress is reported", func(t *testing.T) { checkProgress(t, steps) })
	t.Run("the version is the module's", func(t *testing.T) { checkVersion(t, plane) })
	t.Run("nodes are ready", func(t *testing.T) {
		out := kubectl(t, plane, "get", "nodes", "--no-headers")
		if lines := strings.Split(out, "\n"); len(lines) != 3 || strings.Contains(out, "NotReady") {
			t.Errorf("got\n%s", out)
		}
	})
	t.Run("a deployment's pods run and are collected", func(t *testing.T) { checkDeployment(t, plane) })
	t.Run("a namespace finishes terminating", func(t *testing.T) {
		kubectl(t, plane, "create", "namespace", "short")
		kubectl(t, plane, "delete", "namespace", "short", "--timeout=30s")
	})
	t.Run("service accounts get tokens that are accepted", func(t *testing.T) {
		token := kubectl(t, plane, "create", "token", "default")
		out, err := try(plane, os.DevNull, "--server="+plane.Servers()[0], "--insecure-skip-tls-verify", "--token="+token, "auth", "whoami", "-o", "name")
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(out, "selfsubjectreview") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("a user without rights has none", func(t *testing.T) { checkRights(t, plane) })
	t.Run("all kube-apiservers show the same", func(t *testing.T) {
		kubectl(t, plane, "create", "configmap", "shared", "--from-literal=a=b")
		out, err := try(plane, plane.Kubeconfigs()[1], "get", "configmap", "shared", "-o", "jsonpath={.data.a}")
		if err != nil || out != "b" {
			t.Errorf("got %s, %v", out, err)
		}
	})
	t.Run("the audit log has requests but no secrets", func(t *testing.T) { checkAudit(t, plane, audit) })
	// From here on parts of the control plane fail.
	t.Run("a killed kube-apiserver can be started again", func(t *testing.T) { checkKill(t, plane) })
	t.Run("a paused kube-apiserver does not answer until it is resumed", func(t *testing.T) { checkPause(t, plane) })
	t.Run("etcd keeps its data over a restart", func(t *testing.T) { checkEtcdRestart(t, plane) })
	t.Run("kwok can be stopped and started", func(t *testing.T) { checkKwokRestart(t, plane) })
	t.Run("a paused component can be stopped", func(t *testing.T) {
		c := plane.Component(sandbox.Scheduler)
		if err := errors.Join(c.Pause(), c.Stop(t.Context())); err != nil {
			t.Error(err)
		}
		if err := c.Pause(); err == nil || !strings.Contains(err.Error(), sandbox.Scheduler) {
			t.Errorf("pausing what does not run: got %v", err)
		}
	})
	if err := plane.Err(); err != nil {
		t.Errorf("what was asked for was reported as a fault: %v", err)
	}
	t.Run("stopping leaves nothing", func(t *testing.T) { checkStop(t, plane) })
}

func checkProgress(t *testing.T, steps []sandbox.Progress) {
	var done []string
	for _, s := range steps {
		if s.Done {
			done = append(done, s.Step)
			if s.Took <= 0 {
				t.Errorf("%s took %s", s.Step, s.Took)
			}
		}
	}
	if len(steps) != 2*len(done) {
		t.Errorf("every step is to start and to end: %v", steps)
	}
	all := strings.Join(done, "|")
	for _, step := range []string{"etcd", "kube-apiserver, kube-apiserver-2", "kube-controller-manager", "kwok", "nodes (3)"} {
		if !strings.Contains(all, step) {
			t.Errorf("%q is not in %q", step, all)
		}
	}
}

func checkVersion(t *testing.T, plane *sandbox.ControlPlane) {
	out := kubectl(t, plane, "version", "-o", "json")
	for _, part := range []string{`"gitVersion": "` + plane.KubernetesVersion() + `"`, `"minor": "37"`, `"major": "1"`} {
		if strings.Count(out, part) != 2 { // of client and server
			t.Errorf("%s is not what both say:\n%s", part, out)
		}
	}
}

func checkDeployment(t *testing.T, plane *sandbox.ControlPlane) {
	kubectl(t, plane, "create", "deployment", "web", "--image=none", "--replicas=3")
	kubectl(t, plane, "rollout", "status", "deployment/web", "--timeout=30s")
	kubectl(t, plane, "delete", "deployment", "web")
	eventually(t, func() error {
		return want(kubectl(t, plane, "get", "pods,replicasets", "-o", "name"), "")
	})
}

func checkRights(t *testing.T, plane *sandbox.ControlPlane) {
	content, err := plane.KubeconfigFor("nobody", "nobodies")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := try(plane, file, "get", "pods"); err == nil || !strings.Contains(out, `User "nobody" cannot list resource "pods"`) {
		t.Errorf("got %s, %v", out, err)
	}
	kubectl(t, plane, "create", "rolebinding", "nobodies", "--clusterrole=view", "--group=nobodies")
	eventually(t, func() error { // the authoriser learns of the binding through a watch
		_, err := try(plane, file, "get", "pods")
		return err
	})
	if _, err := plane.KubeconfigFor(""); err == nil {
		t.Error("a user without a name has a kubeconfig")
	}
}

func checkAudit(t *testing.T, plane *sandbox.ControlPlane, audit string) {
	kubectl(t, plane, "create", "secret", "generic", "safe", "--from-literal=key=correct-horse")
	eventually(t, func() error {
		content, err := os.ReadFile(audit)
		if err != nil {
			return err
		}
		if strings.Contains(string(content), "correct-horse") || strings.Contains(string(content), "Y29ycmVjdC1ob3JzZQ") {
			t.Fatal("the secret's data is in the audit log")
		}
		for _, part := range []string{`"name":"safe"`, `"username":"evenkeel-admin"`, `"username":"system:kube-controller-manager"`} {
			if !strings.Contains(string(content), part) {
				return errors.New("there is no " + part)
			}
		}
		return nil
	})
	if _, err := os.Stat(audit + "-2"); err != nil {
		t.Errorf("the second kube-apiserver's: %v", err)
	}
}

func checkKill(t *testing.T, plane *sandbox.ControlPlane) {
	c := plane.Component("kube-apiserver-2")
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if c.PID() != 0 {
		t.Error("it has a process")
	}
	if out, err := try(plane, plane.Kubeconfigs()[1], "get", "namespaces"); err == nil {
		t.Errorf("it answers: %s", out)
	}
	kubectl(t, plane, "get", "namespaces") // the other one still does
	if err := errors.Join(c.Kill(), c.Stop(t.Context())); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Errorf("starting what runs: %v", err)
	}
	if _, err := try(plane, plane.Kubeconfigs()[1], "get", "namespaces"); err != nil {
		t.Error(err)
	}
}

func checkPause(t *testing.T, plane *sandbox.ControlPlane) {
	c := plane.Component("kube-apiserver-2")
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if out, err := try(plane, plane.Kubeconfigs()[1], "get", "namespaces", "--request-timeout=1s"); err == nil {
		t.Errorf("it answers: %s", out)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := try(plane, plane.Kubeconfigs()[1], "get", "namespaces", "--request-timeout=1s")
		return err
	})
}

func checkEtcdRestart(t *testing.T, plane *sandbox.ControlPlane) {
	kubectl(t, plane, "create", "configmap", "before", "--from-literal=a=b")
	c := plane.Component(sandbox.Etcd)
	before := c.PID()
	if err := errors.Join(c.Kill(), c.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.PID() == before {
		t.Error("it is the same process")
	}
	eventually(t, func() error { // kube-apiserver has to connect again
		out, err := try(plane, plane.Kubeconfig(), "get", "configmap", "before", "-o", "jsonpath={.data.a}")
		return errors.Join(err, want(out, "b"))
	})
}

func checkKwokRestart(t *testing.T, plane *sandbox.ControlPlane) {
	c := plane.Component(sandbox.Kwok)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, plane, "run", "waiting", "--image=none")
	eventually(t, func() error {
		return want(kubectl(t, plane, "get", "pod", "waiting", "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].status}"), "True")
	})
	if phase := kubectl(t, plane, "get", "pod", "waiting", "-o", "jsonpath={.status.phase}"); phase != "Pending" {
		t.Errorf("without a kubelet the pod is %s", phase)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, plane, "wait", "pod/waiting", "--for=condition=Ready", "--timeout=30s")
}

func checkStop(t *testing.T, plane *sandbox.ControlPlane) {
	began := time.Now()
	if err := plane.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %s", time.Since(began))
	if err := leftover.Check(plane.Folder(), addresses(plane)...); err != nil {
		t.Error(err)
	}
	if err := plane.Stop(context.Background()); err != nil {
		t.Errorf("the second time: %v", err)
	}
	select {
	case <-plane.Done():
	default:
		t.Error("Done is open")
	}
	if err := plane.Err(); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("got %v", err)
	}
	if err := plane.Component(sandbox.Etcd).Start(t.Context()); err == nil {
		t.Error("a component was started after the end")
	}
}

// TestOwnStagesReplaceThePods shows a pod that takes its time to go.
func TestOwnStagesReplaceThePods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, []byte(slowStages), 0o600); err != nil {
		t.Fatal(err)
	}
	plane := start(t, sandbox.Options{Stages: []string{file}})
	kubectl(t, plane, "run", "slow", "--image=none")
	kubectl(t, plane, "wait", "pod/slow", "--for=condition=Ready", "--timeout=30s")
	began := time.Now()
	kubectl(t, plane, "delete", "pod", "slow", "--timeout=30s")
	if took := time.Since(began); took < time.Second {
		t.Errorf("the pod was gone after %s", took)
	}
}

const slowStages = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: "True"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  delay: {durationMilliseconds: 1500}
  next: {delete: true}
`

func ExampleStart() {
	plane, err := sandbox.Start(context.Background(), sandbox.Options{Minimal: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer plane.Stop(context.Background())
	for _, component := range plane.Components() {
		fmt.Println(component.Name())
	}
	// Output:
	// etcd
	// kube-apiserver
}
