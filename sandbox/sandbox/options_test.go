package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBadOptionsAreNamedWithTheirValue(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	folder := t.TempDir()
	for _, c := range []struct {
		name    string
		options Options
		want    []string
	}{
		{"too few nodes", Options{Nodes: -2}, []string{"nodes -2:"}},
		{"too many nodes", Options{Nodes: 5001}, []string{"nodes 5001:", "5000"}},
		{"nodes of a minimal one", Options{Minimal: true, Nodes: 1}, []string{"nodes 1:", "minimal"}},
		{"stages of a minimal one", Options{Minimal: true, Stages: []string{"/dev/null"}}, []string{"stages [/dev/null]:", "minimal"}},
		{"missing stages", Options{Stages: []string{missing}}, []string{"stages " + missing + ":", "no such file"}},
		{"stages in a folder", Options{Stages: []string{folder}}, []string{"stages " + folder + ":", "is a directory"}},
		{"stages without a stage", Options{Stages: []string{"options_test.go"}}, []string{"stages options_test.go:", "no kwok Stage"}},
		{"apiservers", Options{APIServers: 10}, []string{"apiservers 10:"}},
		{"negative apiservers", Options{APIServers: -1}, []string{"apiservers -1:"}},
		{"port", Options{Port: 65536}, []string{"port 65536:"}},
		{"negative port", Options{Port: -1}, []string{"port -1:"}},
		{"start timeout", Options{StartTimeout: -time.Second}, []string{"start-timeout -1s:"}},
		{"stop timeout", Options{StopTimeout: -time.Second}, []string{"stop-timeout -1s:"}},
		{"feature gate", Options{FeatureGates: map[string]bool{"A=B": true}}, []string{`feature-gates "A=B":`}},
		{"all at once", Options{Port: -1, Nodes: -2}, []string{"port -1:", "nodes -2:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.options.validate()
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want ErrInvalid", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestZeroOptionsAreTheDocumentedDefaults(t *testing.T) {
	if err := (Options{}).validate(); err != nil {
		t.Fatal(err)
	}
	o, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if o.Nodes != 1 || o.APIServers != 1 || o.StartTimeout != 90*time.Second || o.StopTimeout != 20*time.Second {
		t.Errorf("got %+v", o)
	}
}

func TestNodesCanBeNone(t *testing.T) {
	for _, o := range []Options{{Nodes: NoNodes}, {Minimal: true}, {Minimal: true, Nodes: NoNodes}} {
		if err := o.validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		if got, _ := o.withDefaults(); got.Nodes != 0 {
			t.Errorf("%+v: %d nodes, want none", o, got.Nodes)
		}
	}
}

func TestDefaultsDoNotTouchTheCallersSlices(t *testing.T) {
	stages := []string{"a.yaml"}
	o, err := Options{Stages: stages}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if stages[0] != "a.yaml" || !filepath.IsAbs(o.Stages[0]) {
		t.Errorf("caller has %v, we have %v", stages, o.Stages)
	}
}

func TestArgumentsFollowTheOptions(t *testing.T) {
	l := layout{work: "/w", state: "/s", logs: "/l", ports: ports{etcd: 1, apiservers: []int{2, 3}, controllerManager: 4, scheduler: 5}}
	for _, c := range []struct {
		name      string
		arguments []string
		want      string
		wanted    bool
	}{
		{"fsync is off", etcdArguments(Options{}, l), "--unsafe-no-fsync=true", true},
		{"fsync is on", etcdArguments(Options{EtcdFsync: true}, l), "--unsafe-no-fsync=true", false},
		{"second apiserver's port", apiServerArguments(Options{}, l, 2), "--secure-port=3", true},
		{"second apiserver's audit log", apiServerArguments(Options{AuditLog: "/a"}, l, 2), "--audit-log-path=/a-2", true},
		{"no service accounts without controllers", apiServerArguments(Options{Minimal: true}, l, 1), "--disable-admission-plugins=ServiceAccount", true},
		{"service accounts with controllers", apiServerArguments(Options{}, l, 1), "--disable-admission-plugins=ServiceAccount", false},
		{"gates of the apiserver", apiServerArguments(Options{FeatureGates: map[string]bool{"B": true, "A": false}}, l, 1), "--feature-gates=A=false,B=true", true},
		{"gates of the controllers", controllerManagerArguments(Options{FeatureGates: map[string]bool{"A": true}}, l), "--feature-gates=A=true", true},
		{"gates of the scheduler", schedulerArguments(Options{FeatureGates: map[string]bool{"A": true}}, l), "--feature-gates=A=true", true},
		{"default stages", kwokArguments(Options{}, l), "--config=sandbox:pods", true},
		{"own stages", kwokArguments(Options{Stages: []string{"/x"}}, l), "--config=/x", true},
		{"own stages replace the default ones", kwokArguments(Options{Stages: []string{"/x"}}, l), "--config=sandbox:pods", false},
	} {
		if got := slices.Contains(c.arguments, c.want); got != c.wanted {
			t.Errorf("%s: %q is there: %t, want %t", c.name, c.want, got, c.wanted)
		}
	}
	if got := apiServerArguments(Options{APIServerArgs: []string{"--v=9"}}, l, 1); got[len(got)-1] != "--v=9" {
		t.Errorf("further arguments must come last, to win: %v", got)
	}
}

func TestAKubeconfigThatIsNotOursIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := checkKubeconfigFile(file); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	for content, want := range map[string]bool{
		"":                              true,
		"current-context: production\n": false,
		string(kubeconfig("https://127.0.0.1:1", nil, pair{})):      true,
		"current-context: evenkeel-sandbox-of-somebody-else\n# x\n": false,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkKubeconfigFile(file)
		if (err == nil) != want {
			t.Errorf("%q: got %v, want acceptance %t", content, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("%q does not name the file", err)
		}
	}
}

func TestAKubeconfigThatCannotBeRemovedAtTheEndIsRefused(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{folder, link, fifo, os.DevNull, filepath.Join(folder, "a:b")} {
		if err := checkKubeconfigFile(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", file, err)
		}
	}
}

func TestAKubeconfigBelongsToOneControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("longer than what comes"), 0o644); err != nil {
		t.Fatal(err)
	}
	held, err := createKubeconfig(file, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := held.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if _, err := createKubeconfig(file, []byte("second")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("the second: got %v", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "first" {
		t.Errorf("got %q, %v", content, err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := createKubeconfig(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
