package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/tree"
)

const module = "github.com/evenkeel/evenkeel"

// rule says what the packages at a place may import. A pattern ending in /... matches a prefix,
// "ours" any package of this module, "std" the standard library.
type rule struct {
	place string
	may   []string
	why   string
}

// rules are the table of the house; the first that matches a package counts. What they allow of
// third parties is what the design names; add a line here before adding an import.
var rules = []rule{
	{"internal/author", []string{"std"}, "it calls what authors wrote, and everything may call it"},
	{"internal/fieldpath", []string{"std", "k8s.io/apimachinery/..."}, "it compares two objects, and everything may call it"},
	{"retry", []string{"std", "github.com/cenkalti/backoff/v4"}, "the delay question knows nothing of Kubernetes"},
	{"timeline", []string{"std", module + "/internal/author"}, "the record is a leaf that everything may import"},
	{
		"trc",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/client-go/tools/cache", "k8s.io/utils/lru", module + "/internal/author"},
		"the store knows nothing of who reads it",
	},
	{
		"scheduler",
		[]string{"std", "golang.org/x/sync/...", "golang.org/x/time/...", module + "/internal/author", module + "/retry", module + "/timeline"},
		"the scheduler is generic: no Kubernetes, and no event sources, whose sibling it is",
	},
	{
		"eventsource",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/client-go/...", module + "/internal/author", module + "/internal/fieldpath", module + "/trc", module + "/timeline"},
		"sources offer to a sink and must not know the scheduler, whose siblings they are",
	},
	{
		"framework/workflow",
		[]string{"std", "golang.org/x/sync/...", module + "/internal/author"},
		"the workflow is a pure graph",
	},
	{
		"framework/dependent",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...",
			module + "/framework", module + "/framework/workflow", module + "/framework/conditions", module + "/eventsource",
		},
		"dependents stand on the framework, never beside it, and not on each other",
	},
	{
		"framework/external",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...",
			module + "/framework", module + "/framework/workflow", module + "/framework/conditions", module + "/eventsource",
			module + "/framework/internal/planning",
		},
		"dependents stand on the framework, never beside it, and not on each other; a plan keeps them from acting outside of the cluster",
	},
	{
		"framework/plan",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "gopkg.in/evanphx/json-patch.v4", "sigs.k8s.io/yaml",
			module + "/framework", module + "/framework/observe", module + "/timeline", module + "/internal/author",
			module + "/framework/internal/object", module + "/framework/internal/planning",
		},
		"it stands between an operator and its API server: it sees requests and runs, and no caches or writers",
	},
	{"framework/internal/planning", []string{"std", "k8s.io/apimachinery/pkg/types"}, "every room may ask for the plan, which knows none of them"},
	{
		"framework/ready",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...",
			module + "/framework", module + "/framework/workflow", module + "/framework/conditions",
		},
		"verdicts about objects stand on the framework, never beside it, and not on dependents",
	},
	{
		"framework/conditions",
		[]string{"std", "k8s.io/apimachinery/...", module + "/framework/workflow", module + "/internal/author"},
		"conditions are a leaf that everything above the workflow may import",
	},
	{"framework/health", []string{"std", module + "/trc", module + "/eventsource", module + "/scheduler"}, "health is a leaf: pages and metrics import it without the framework"},
	{"framework/observe", []string{"std", "k8s.io/apimachinery/pkg/types", module + "/timeline"}, "it is a leaf: metrics and traces import it without the framework"},
	{
		"framework/prometheus",
		[]string{
			"std", "github.com/prometheus/client_golang/...", "k8s.io/apimachinery/pkg/types",
			module + "/framework/health", module + "/framework/observe", module + "/timeline", module + "/trc",
		},
		"the only importer of client_golang: it asks the operator by an interface",
	},
	{"cmd/evenkeel", []string{"std"}, "it writes text, and calls the programs of the project that it is in"},
	{"cmd/kubectl-evenkeel", []string{"std", module + "/framework/why"}, "the plugin lets kubectl reach the cluster, and knows the pages"},
	{
		"framework/why",
		[]string{
			"std", "k8s.io/apimachinery/pkg/types",
			module + "/framework/health", module + "/framework/observe", module + "/framework/workflow", module + "/timeline",
		},
		"pages ask the operator by an interface, and keep what an observer is told",
	},
	{
		"framework/debughttp",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/..."},
		"the listener asks the operator by an interface, and gets metrics as a handler: nothing of ours",
	},
	{
		"framework/interlock",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...",
			module + "/framework", module + "/framework/workflow", module + "/framework/conditions", module + "/eventsource",
		},
		"the interlock is one bundled workflow over the public API",
	},
	{
		"framework/cmd",
		[]string{
			"std", "golang.org/x/sync/errgroup", "k8s.io/apimachinery/pkg/runtime", "k8s.io/client-go/...", "github.com/go-logr/logr",
			module + "/framework", module + "/framework/config", module + "/framework/debughttp", module + "/framework/observe",
			module + "/framework/plan", module + "/framework/prometheus", module + "/framework/why",
		},
		"the main function puts public packages together, as an author could",
	},
	{
		"framework/config",
		[]string{"std", "k8s.io/apimachinery/...", "sigs.k8s.io/yaml", module + "/framework"},
		"it fills in options and knows nothing of what they do",
	},
	{
		"frameworktest",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr", "github.com/go-logr/logr/funcr",
			"sigs.k8s.io/yaml",
			module + "/framework/...", module + "/eventsource", module + "/timeline", module + "/trc", module + "/retry",
			module + "/frameworktest/internal/...", module + "/internal/apimodel", module + "/internal/actors", module + "/internal/author", module + "/internal/faultproxy",
			module + "/internal/testenv", module + "/internal/testenv/client",
		},
		"authors use it in their tests: no samples, no test runner of its own",
	},
	{
		"frameworktest/internal/network",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/client-go/kubernetes/scheme"},
		"it stands outside of what it breaks: nothing of ours",
	},
	{
		"frameworktest/internal/canon",
		[]string{"std", "k8s.io/apimachinery/...", "sigs.k8s.io/yaml"},
		"it compares objects, wherever they come from: nothing of ours",
	},
	{
		"framework/internal/object",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "sigs.k8s.io/json", "gopkg.in/evanphx/json-patch.v4",
			module + "/trc", module + "/framework/workflow", module + "/framework/internal/safely",
		},
		"it knows what objects look like, not where they are",
	},
	{
		"framework/internal/client",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr", "sigs.k8s.io/json",
			module + "/trc", module + "/framework/internal/object", module + "/framework/internal/safely", module + "/internal/author",
		},
		"it speaks with an API server and keeps no objects: no caches, no writes of its own",
	},
	{
		"framework/internal/lease",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr", module + "/framework/internal/planning", module + "/internal/author"},
		"it is asked whether writes are allowed, it asks nobody: no caches, no writers",
	},
	{
		"framework/internal/cache",
		[]string{
			"std", "golang.org/x/sync/...", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr",
			module + "/trc", module + "/framework/health", module + "/framework/internal/client", module + "/framework/internal/lease",
			module + "/framework/internal/object", module + "/framework/internal/planning", module + "/framework/internal/safely", module + "/internal/author",
		},
		"it shows what there is: no writes, no sources, no runs",
	},
	{
		"framework/internal/contest",
		[]string{"std", "k8s.io/apimachinery/...", module + "/timeline", module + "/trc", module + "/internal/fieldpath"},
		"it compares what it is given, and asks nobody",
	},
	{
		"framework/internal/write",
		[]string{
			"std", "golang.org/x/sync/...", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr",
			"gopkg.in/evanphx/json-patch.v4", "sigs.k8s.io/json",
			module + "/eventsource", module + "/retry", module + "/timeline", module + "/trc", module + "/framework/conditions",
			module + "/framework/internal/cache", module + "/framework/internal/client", module + "/framework/internal/contest",
			module + "/framework/internal/lease", module + "/framework/internal/object", module + "/framework/internal/safely",
			module + "/internal/author", module + "/internal/fieldpath",
		},
		"it writes and proves: no sources, no runs, no scheduler",
	},
	{
		"framework/internal/admission",
		[]string{"std", "github.com/go-logr/logr", module + "/trc", module + "/framework/internal/lease", module + "/framework/internal/safely"},
		"it lets runs in and ends them, and knows nothing of what they do",
	},
	{
		"framework/internal/finalrun",
		[]string{"std", "k8s.io/apimachinery/...", module + "/trc", module + "/scheduler"},
		"it says whose last run is due, and makes none",
	},
	{
		"framework/internal/source",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "github.com/go-logr/logr",
			module + "/eventsource", module + "/scheduler", module + "/timeline", module + "/trc",
			module + "/framework/internal/cache", module + "/framework/internal/client", module + "/framework/internal/object",
			module + "/framework/internal/safely", module + "/framework/internal/write", module + "/internal/author",
		},
		"sources emit to a sink: no runs",
	},
	{
		"framework/internal/host",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "github.com/go-logr/logr", module + "/framework/observe",
			module + "/timeline", module + "/trc", module + "/framework/internal/cache", module + "/framework/internal/lease",
			module + "/framework/internal/safely", module + "/framework/internal/source", module + "/framework/internal/write", module + "/internal/author",
		},
		"it is what controllers share, and knows none of them",
	},
	{
		"framework/internal/registry",
		[]string{
			"std", "k8s.io/apimachinery/...",
			module + "/eventsource", module + "/timeline", module + "/trc",
			module + "/framework/internal/cache", module + "/framework/internal/client", module + "/framework/internal/host",
			module + "/framework/internal/object", module + "/framework/internal/safely", module + "/framework/internal/source",
			module + "/framework/internal/write", module + "/internal/author",
		},
		"it knows a run only as a visit, and offers primaries to a sink",
	},
	{
		"framework/internal/run",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "github.com/go-logr/logr",
			module + "/eventsource", module + "/retry", module + "/scheduler", module + "/timeline", module + "/trc",
			module + "/framework/conditions", module + "/framework/health", module + "/framework/observe", module + "/framework/workflow",
			module + "/framework/internal/...", module + "/internal/author",
		},
		"one controller without its type parameter: the framework is above it",
	},
	{
		"framework/internal/safely",
		[]string{"std", "github.com/go-logr/logr", module + "/trc", module + "/scheduler", module + "/internal/author"},
		"it calls what authors wrote: every room may use it",
	},
	{
		"framework",
		[]string{
			"std", "golang.org/x/sync/...", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...",
			"github.com/go-logr/logr", "sigs.k8s.io/json", "gopkg.in/evanphx/json-patch.v4",
			module + "/retry", module + "/timeline", module + "/trc", module + "/scheduler", module + "/eventsource",
			module + "/framework/workflow", module + "/framework/conditions", module + "/framework/health", module + "/framework/observe",
			module + "/framework/internal/...", module + "/internal/author",
		},
		"users embed the framework: no Prometheus, no controller-runtime, no samples",
	},
	{
		"samples",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "github.com/go-logr/logr", "golang.org/x/net/html", "golang.org/x/term", "golang.org/x/sync/errgroup",
			module + "/framework/...", module + "/retry", module + "/timeline", module + "/samples/...",
		},
		"samples use what users can use: nothing internal",
	},
	{
		"internal/testenv/client",
		[]string{"std", "github.com/go-logr/logr", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/..."},
		"the API client of the tests stands beside the framework: nothing of ours",
	},
	{
		"internal/testenv",
		[]string{
			"std", "golang.org/x/sys/unix", "k8s.io/apimachinery/...", "k8s.io/client-go/...",
			module + "/internal/testenv/client",
		},
		"only tests import it, and only it speaks with etcd",
	},
	{
		"internal/faultproxy",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/client-go/rest", "k8s.io/client-go/util/cert", "sigs.k8s.io/json", "sigs.k8s.io/yaml"},
		"it stands outside of what it disturbs: nothing of ours",
	},
	{
		"internal/wire",
		[]string{"std", "k8s.io/client-go/rest"},
		"it stands outside of what it breaks: nothing of ours",
	},
	{
		"internal/apimodel",
		[]string{
			"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/client-go/...", "k8s.io/kube-openapi/...", "k8s.io/utils/ptr",
			"sigs.k8s.io/structured-merge-diff/v6/...", "sigs.k8s.io/yaml", "gopkg.in/evanphx/json-patch.v4",
		},
		"the API server of the tests knows nothing of what is tested against it",
	},
	{
		"internal/actors",
		[]string{"std", "k8s.io/apimachinery/...", "k8s.io/api/...", "k8s.io/utils/ptr", module + "/internal/apimodel"},
		"they act on the API server of the tests by its requests, and know nothing of what is tested",
	},
	{"internal/behindtest", nil, "it is tests"},
	{"internal/callbacks", nil, "it is tests"},
	{"internal/dependenttest", nil, "it is tests"},
	{"internal/externaltest", nil, "it is tests"},
	{"internal/portedtest", nil, "it is tests"},
	{"internal/freshnesstest", nil, "it is tests"},
	{"internal/interlocktest", nil, "it is tests"},
	{"internal/weathertest", nil, "it is tests"},
	{"internal/clusterstest", nil, "it is tests"},
	{"internal/conditionstest", nil, "it is tests"},
	{"internal/simulation", nil, "it is tests"},
	{"internal/archtest", []string{"std"}, "it reads the packages, it does not use them"},
	{"internal/tutorial", []string{"std"}, "it follows a page as a reader does: with the programs that the page names"},
	{"internal/mutants", []string{"std"}, "it breaks the packages, it does not use them"},
	{"internal/lockorder", []string{"std"}, "production code is compiled with the recorder for a test: it must not import what it records"},
	{"internal/tree", []string{"std"}, "it reads the packages and compiles changed ones, it does not use them"},
	{"internal/depth", []string{"std"}, "it knows how far tests go, not what they test"},
	{"internal/kitfigures", []string{"std", module + "/frameworktest"}, "it measures the test kit"},
	{"internal/spectimes", []string{"std", "github.com/onsi/ginkgo/v2"}, "it knows how long tests take, not what they test"},
	{"internal/figures", []string{"std", module + "/internal/tree"}, "it counts what the go command lists and other programs keep"},
	{"internal/testreport", []string{"std"}, "it reads what the go command prints"},
}

// onlyForTests may be imported by tests alone, by each other, and by the test kit, which is for
// tests.
var onlyForTests = []string{module + "/internal/testenv", module + "/internal/testenv/client", module + "/internal/spectimes", module + "/internal/depth"}

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// packages lists the packages of this module and all they import.
func packages(t *testing.T) (ours []goPackage, standard map[string]bool) {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports", module+"/...")
	var problems strings.Builder
	list.Stderr = &problems
	output, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	all, err := tree.Decode[goPackage](output)
	if err != nil {
		t.Fatal(err)
	}
	standard = map[string]bool{"C": true}
	for _, p := range all {
		if p.Standard {
			standard[p.ImportPath] = true
		}
		if strings.HasPrefix(p.ImportPath, module+"/") {
			ours = append(ours, p)
		}
	}
	return ours, standard
}

func TestPackagesImportOnlyWhatTheirPlaceAllows(t *testing.T) {
	ours, standard := packages(t)
	if len(ours) < 6 {
		t.Fatalf("only %d packages found: the test looks at the wrong place", len(ours))
	}
	for _, p := range ours {
		r := ruleOf(p.ImportPath)
		if r == nil {
			t.Errorf("%s has no place in the rules: say in archtest what it may import, and why", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !r.allows(imported, standard[imported]) {
				t.Errorf("%s imports %s, which %s must not: %s", p.ImportPath, imported, r.place, r.why)
			}
			if slices.Contains(onlyForTests, imported) && !slices.Contains(onlyForTests, p.ImportPath) && p.ImportPath != module+"/frameworktest" {
				t.Errorf("%s imports %s outside of its tests", p.ImportPath, imported)
			}
		}
	}
}

func TestTheRulesCanFail(t *testing.T) {
	for _, c := range []struct {
		from, imported string
		allowed        bool
	}{
		{"trc", module + "/eventsource", false},
		{"trc", "k8s.io/apimachinery/pkg/types", true},
		{"trc", "k8s.io/client-go/rest", false},
		{"eventsource", module + "/scheduler", false},
		{"scheduler", "k8s.io/apimachinery/pkg/types", false},
		{"framework", "github.com/prometheus/client_golang/prometheus", false},
		{"framework", module + "/samples/webpage", false},
		{"framework/workflow", "k8s.io/client-go/rest", false},
		{"framework/dependent", module + "/framework", true},
		{"framework/dependent", module + "/framework/external", false},
		{"framework/external", module + "/framework/dependent", false},
		{"framework/external", module + "/framework/conditions", true},
		{"framework/ready", module + "/framework/dependent", false},
		{"framework/ready", module + "/framework/workflow", true},
		{"framework/conditions", module + "/framework", false},
		{"framework/conditions", module + "/framework/workflow", true},
		{"framework/health", module + "/framework", false},
		{"framework/health", module + "/trc", true},
		{"framework/interlock", module + "/framework/dependent", false},
		{"framework/internal/object", module + "/trc", true},
		{"framework/internal/object", module + "/framework", false},
		{"framework/internal/client", module + "/framework/internal/object", true},
		{"framework/internal/client", module + "/framework", false},
		{"framework/internal/object", module + "/framework/internal/client", false},
		{"framework/internal/safely", module + "/framework/internal/object", false},
		{"framework/internal/safely", module + "/internal/author", true},
		{"framework/dependent", module + "/framework/internal/object", false},
		{"samples/webpage", module + "/internal/testenv", false},
		{"samples/webpage/cmd/demo", module + "/framework", true},
	} {
		r := ruleOf(module + "/" + c.from)
		if r == nil || r.allows(c.imported, false) != c.allowed {
			t.Errorf("%s importing %s: want allowed %v", c.from, c.imported, c.allowed)
		}
	}
}

func ruleOf(path string) *rule {
	place := strings.TrimPrefix(path, module+"/")
	for i := range rules {
		if place == rules[i].place || strings.HasPrefix(place, rules[i].place+"/") {
			return &rules[i]
		}
	}
	return nil
}

func (r *rule) allows(imported string, isStandard bool) bool {
	for _, pattern := range r.may {
		prefix, isPrefix := strings.CutSuffix(pattern, "/...")
		switch {
		case pattern == "std" && isStandard, imported == pattern:
			return true
		case isPrefix && (imported == prefix || strings.HasPrefix(imported, prefix+"/")):
			return true
		}
	}
	return false
}
