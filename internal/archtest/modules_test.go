package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// notForUsers are modules that our tests once needed, or that only modules of their own need: what
// go.mod requires is in the module graph of every user. See docs/design/0021-users-modules.md.
var notForUsers = []string{"sigs.k8s.io/controller-runtime", "go.etcd.io/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/chromedp/"}

func TestUsersDoNotTakeOverTheToolsOfTests(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := 0
	for line := range strings.Lines(string(content)) {
		path, isRequired := strings.CutPrefix(line, "\t")
		if !isRequired {
			continue
		}
		required++
		for _, unwanted := range notForUsers {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("go.mod requires %s: replace it in the tests, or use it in a module of its own", strings.TrimSpace(path))
			}
		}
	}
	if required < 10 {
		t.Errorf("only %d requirements found: the test reads go.mod wrongly", required)
	}
}

// tracing is a module of its own, so the other rules do not see it.
var tracing = rule{
	"framework/tracing",
	[]string{
		"std", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/propagation",
		"go.opentelemetry.io/otel/trace", "k8s.io/apimachinery/pkg/types", module + "/framework/observe", module + "/timeline",
	},
	"the program chooses the SDK: only the API of OpenTelemetry",
}

func TestTracesNeedNoSDK(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "framework", "tracing", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range parsed.Imports {
			seen++
			imported, err := strconv.Unquote(one.Path.Value)
			first, _, _ := strings.Cut(imported, "/")
			if err != nil || !tracing.allows(imported, !strings.Contains(first, ".")) {
				t.Errorf("%s imports %s, which it must not: %s", filepath.Base(file), imported, tracing.why)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d imports found: the test looks at the wrong place", seen)
	}
}
