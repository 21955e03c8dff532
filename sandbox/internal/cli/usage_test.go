package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

func TestBadUsageIsRefusedNamingFlagAndValue(t *testing.T) {
	for _, c := range []struct {
		arguments string
		want      []string
	}{
		{"", []string{"Usage:"}},
		{"upp", []string{`"upp"`, "sandbox help"}},
		{"up --frobnicate", []string{"--frobnicate"}},
		{"up --nodes many", []string{`"many"`, "--nodes"}},
		{"up --nodes -1", []string{`"-1"`, "--nodes"}},
		{"up --nodes 9999", []string{"nodes 9999", "5000"}},
		{"up --minimal --nodes 2", []string{"nodes 2", "minimal"}},
		{"up --apiservers 0", []string{"--apiservers 0"}},
		{"up --apiservers 77", []string{"apiservers 77"}},
		{"up --port 70000", []string{"port 70000"}},
		{"up --feature-gates Foo", []string{`"Foo"`, "--feature-gates", "Name=true"}},
		{"up --feature-gates Foo=perhaps", []string{`"Foo=perhaps"`, "--feature-gates"}},
		{"up --start-timeout soon", []string{`"soon"`, "--start-timeout"}},
		{"up --stages /no/such/file", []string{"/no/such/file", "stages"}},
		{"up kubectl get pods", []string{`"kubectl"`, "--"}},
		{"up --", []string{"no command"}},
		{"assets", []string{"one folder"}},
		{"assets a b", []string{"one folder"}},
	} {
		t.Run(c.arguments, func(t *testing.T) {
			r := sandboxed(t, exitUsage, strings.Fields(c.arguments)...)
			contains(t, "standard error", r.stderr.String(), c.want...)
			if r.stdout.Len() > 0 {
				t.Errorf("standard output: %s", r.stdout)
			}
		})
	}
}

func TestWhatCannotBootIsRefusedNamingTheThing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	old := t.TempDir()
	foreign := t.TempDir()
	kubeconfig := filepath.Join(foreign, "config")
	for file, content := range map[string]string{
		filepath.Join(old, "sandbox.json"): `{"format": 1, "kubernetes": "v1.30.0"}`,
		kubeconfig:                         "current-context: production\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ arguments, want []string }{
		"port taken":                   {[]string{"--port", port}, []string{"port " + port, "taken"}},
		"data of another version":      {[]string{"--data", old}, []string{old, "v1.30.0", "v1.37"}},
		"data that are somebody's":     {[]string{"--data", foreign}, []string{foreign, "not a sandbox's"}},
		"kubeconfig that is another's": {[]string{"--kubeconfig", kubeconfig}, []string{kubeconfig, "not a sandbox's"}},
		"logs where none can be":       {[]string{"--logs", kubeconfig}, []string{kubeconfig, "logs"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := sandboxed(t, exitFailure, append([]string{"up", "--minimal"}, c.arguments...)...)
			contains(t, "standard error", r.stderr.String(), c.want...)
		})
	}
}

func TestHelpTellsEverything(t *testing.T) {
	r := sandboxed(t, 0, "help")
	contains(t, "help", r.stdout.String(), "sandbox up", "sandbox assets", "sandbox kubectl", "sandbox version", "KUBECONFIG", "OUTLIVE_PARENT")
	var help bool
	flags := upFlagSet(&sandbox.Options{}, &help).FlagUsages()
	for _, arguments := range [][]string{{"up", "--help"}, {"help", "up"}, {"up", "-h", "--minimal"}} {
		r := sandboxed(t, 0, arguments...)
		contains(t, "help", r.stdout.String(), flags, "KUBECONFIG", "SANDBOX_KUBECONFIG_N")
	}
	for _, arguments := range [][]string{{"assets", "--help"}, {"help", "assets"}} {
		contains(t, "help", sandboxed(t, 0, arguments...).stdout.String(), "KUBEBUILDER_ASSETS")
	}
}

func TestFlagsBecomeOptions(t *testing.T) {
	f, err := parseUp([]string{
		"--nodes=0", "--stages=a", "--stages=b", "--apiservers=2", "--feature-gates=A=true,B=false", "--feature-gates=C=true",
		"--etcd-fsync", "--apiserver-arg=--v=3", "--", "go", "test", "--", "-v",
	})
	if err != nil {
		t.Fatal(err)
	}
	o := f.options
	if o.Nodes != sandbox.NoNodes || len(o.Stages) != 2 || o.APIServers != 2 || !o.EtcdFsync || o.APIServerArgs[0] != "--v=3" {
		t.Errorf("got %+v", o)
	}
	if len(o.FeatureGates) != 3 || !o.FeatureGates["A"] || o.FeatureGates["B"] || !o.FeatureGates["C"] {
		t.Errorf("got gates %v", o.FeatureGates)
	}
	if got := strings.Join(f.command, " "); got != "go test -- -v" {
		t.Errorf("got command %q", got)
	}
}

func TestVersionNamesWhatWasBuilt(t *testing.T) {
	r := sandboxed(t, 0, "version")
	contains(t, "version", r.stdout.String(), "kubernetes  v1.37.1", "etcd        v3.", "kwok        v0.", "go          go1.")
}

func TestAssetsAreWhatEnvtestNeeds(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "assets")
	for range 2 { // the second time replaces the first
		r := sandboxed(t, 0, "assets", folder)
		if got := strings.TrimSpace(r.stdout.String()); got != folder {
			t.Errorf("printed %q, want the folder", got)
		}
	}
	for program, flag := range map[string]string{"etcd": "--unsafe-no-fsync", "kube-apiserver": "--etcd-servers", "kubectl": "apply"} {
		out, err := runProgram(filepath.Join(folder, program), "--help")
		if err != nil {
			t.Errorf("%s: %v", program, err)
		}
		contains(t, program, out, flag)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 4 {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestAssetsDoNotOverwriteAnothersFiles(t *testing.T) {
	for _, name := range []string{"etcd", "sandbox"} {
		folder := t.TempDir()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := sandboxed(t, exitFailure, "assets", folder)
		contains(t, "standard error", r.stderr.String(), file)
		if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
			t.Errorf("got %q, %v", content, err)
		}
	}
}

func TestAssetsWithoutANameAreRefused(t *testing.T) {
	contains(t, "standard error", sandboxed(t, exitUsage, "assets", "").stderr.String(), "empty")
}
