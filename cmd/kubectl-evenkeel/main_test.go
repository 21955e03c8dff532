package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/timeline"
)

// standIn puts a script in place of kubectl: it forwards to a server, and notes its arguments. The
// control plane of the tests has no kubelets, which forward ports.
func standIn(t *testing.T, script string) (arguments func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	text := "#!/bin/sh\necho \"$@\" >>" + log + "\n" + script
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		all, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
}

func forwarding(server *httptest.Server) string {
	return fmt.Sprintf(`case "$1" in
config) echo shop ;;
port-forward) echo "Forwarding from %s -> 8080"; exec sleep 60 ;;
esac`, strings.TrimPrefix(server.URL, "http://"))
}

func pages(t *testing.T) *httptest.Server {
	t.Helper()
	p, err := why.New(why.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hello := types.NamespacedName{Namespace: "shop", Name: "hello"}
	p.RunEnded("webpage", hello, timeline.Record{
		Causes:   []timeline.Cause{timeline.Resource{Kind: "WebPage", Namespace: "shop", Name: "hello", Action: timeline.Added, NewVersion: "7"}},
		Requests: []timeline.Request{{Text: "apply ConfigMap shop/hello", Proof: timeline.Created}},
		Nodes:    []timeline.Node{{Name: "web", State: "Waiting", Reason: "for content"}}, Duration: 1500 * time.Millisecond, Next: time.Hour,
	})
	p.RunEnded("webpage", hello, timeline.Record{
		Causes: []timeline.Cause{timeline.Retry{Attempt: 2}}, Outcome: timeline.Failed, Err: "one\ntwo", Gate: timeline.BackOff, Attempt: 2, Final: true,
	})
	p.RunEnded("planet", types.NamespacedName{Name: "mars"}, timeline.Record{Causes: []timeline.Cause{timeline.Manual{By: "me"}}})
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	return server
}

func TestWhy(t *testing.T) {
	asked := standIn(t, forwarding(pages(t)))
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"why WebPage hello --operator ops/deploy/pages", []string{
			"succeeded, took 1.5s, waited 0s\n  because  WebPage shop/hello added 7", "\n  wrote    apply ConfigMap shop/hello (created)\n  node     web Waiting for content\n",
			"next     after 1h0m0s at the latest\n", "failed, took 0s, waited 0s for back-off, retry 2\n", "  error    one\n           two\n  next     none: no retry can mend it\n",
		}},
		{"why --operator ops/deploy/pages --controller webpage -n shop Page hello -o json", []string{`"controller": "webpage"`, `"proof": "created"`}},
		{"why planet mars --cluster-scoped --operator ops/deploy/pages", []string{"because  manual by me"}},
		{"help", []string{"kubectl evenkeel why KIND NAME"}},
	} {
		var out strings.Builder
		if err := run(t.Context(), strings.Fields(c.args), &out); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		for _, part := range c.parts {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q lacks %q", c.args, out.String(), part)
			}
		}
	}
	if all := asked(); !strings.Contains(all, "port-forward -n ops deploy/pages :8080\n") || strings.Count(all, "config view") != 1 {
		t.Errorf("kubectl was asked for %s", all)
	}
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for _, c := range []struct{ script, args, says string }{
		{"exit 1", "why page hello", `--operator "": want NAMESPACE/KIND/NAME`},
		{"exit 1", "why page", `unexpected arguments ["why" "page"]`},
		{"exit 1", "what page hello", "unexpected arguments"},
		{"exit 1", "why page hello --operator a/b/c -o yaml", `-o "yaml": want json`},
		{"exit 1", "why page hello --operator a/b/c -n x --cluster-scoped", "give one of them"},
		{"exit 1", "why page hello --operator a/b/c --colour", "flag provided but not defined: -colour"},
		{"exit 1", "why page hello --operator a/b/c", "the namespace of the current context"},
		{"echo 'deployment c not found' >&2; exit 1", "why page hello -n x --operator a/b/c", "kubectl port-forward to a/b/c: deployment c not found"},
		{forwarding(refusing), "why page hello -n x --operator a/b/c", "the operator answers 404 Not Found"},
	} {
		standIn(t, c.script)
		if err := run(t.Context(), strings.Fields(c.args), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.args, err, c.says)
		}
	}
}
