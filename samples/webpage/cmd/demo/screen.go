package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"golang.org/x/term"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// counter counts the operator's requests for single objects, reads and writes. Lists, watches and
// discovery are per kind and not per page.
type counter struct{ n atomic.Int64 }

func (c *counter) count() int { return int(c.n.Load()) }

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet || namesObject(request.URL.Path) {
			c.n.Add(1)
		}
		return next.RoundTrip(request)
	})
}

// namesObject reports whether a path names a single object, as
// /api/v1/namespaces/NAMESPACE/RESOURCE/NAME does.
func namesObject(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/VERSION
	if parts[0] == "apis" {
		skip = 3 // apis/GROUP/VERSION
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) >= 2
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// count is what the operator did for one page.
type count struct{ runs, writes int }

// runsPerPage reads the operator's own record.
func runsPerPage(op *framework.Operator) map[string]count {
	counts := map[string]count{}
	for _, record := range op.Records("webpage") {
		c := counts[record.Key]
		c.runs++
		c.writes += len(record.Requests)
		counts[record.Key] = c
	}
	return counts
}

// screen redraws the table in place on a terminal. Elsewhere it prints the table again only if it
// has changed.
type screen struct {
	out      io.Writer
	terminal bool
	last     string
	lines    int // lines that are drawn and may be overwritten
}

func newScreen(out io.Writer) *screen {
	file, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

func (s *screen) show(v view) {
	text := table(v, s.terminal)
	if text == s.last {
		return
	}
	if s.terminal && s.lines > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.lines) // move up, and clear to the end
	}
	fmt.Fprint(s.out, text)
	s.last, s.lines = text, strings.Count(text, "\n")
}

// leave keeps what is drawn and continues below it.
func (s *screen) leave() { s.lines, s.last = 0, "" }

func table(v view, withAge bool) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	header := "  WEBPAGE\tREADY\tREASON\tURL\tRUNS\tWRITES\tWORKFLOW"
	if withAge {
		header = strings.Replace(header, "WORKFLOW", "AGE\tWORKFLOW", 1)
	}
	fmt.Fprintln(w, header)
	for i := range v.pages {
		p := &v.pages[i]
		ready, reason := "", ""
		if c := apimeta.FindStatusCondition(p.Status.Conditions, conditions.Ready); c != nil {
			ready, reason = string(c.Status), c.Reason
		}
		n := v.counts[p.Namespace+"/"+p.Name]
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\t%d", p.Name, ready, reason, p.Status.URL, n.runs, n.writes)
		if withAge {
			fmt.Fprintf(w, "\t%v", age(p))
		}
		fmt.Fprintf(w, "\t%s\n", drawn(v.workflows[p.Namespace+"/"+p.Name]))
	}
	_ = w.Flush()
	var objects []string
	for _, kind := range kinds {
		objects = append(objects, fmt.Sprintf("%d %s", v.objects[kind.Resource], kind.Resource))
	}
	fmt.Fprintf(&b, "  %s; %d requests of the operator\n", strings.Join(objects, ", "), v.requests)
	fmt.Fprintf(&b, "  %s\n", legend)
	return b.String()
}

// marks are the symbols for the states of nodes.
var marks = map[workflow.State]string{
	workflow.Ready: "●", workflow.NotReady: "◐", workflow.Deleting: "◐", workflow.Failed: "✗",
	workflow.Deleted: "○", workflow.Inactive: "○", workflow.Left: "○",
}

const legend = "● ready   ◐ under way   ○ not wanted   · waiting   ✗ failed"

// drawn returns the newest result for a page, in one line.
func drawn(result *workflow.Result) string {
	if result == nil {
		return ""
	}
	var nodes []string
	for _, n := range result.Nodes {
		nodes = append(nodes, cmp.Or(marks[n.State], "·")+" "+n.Name)
	}
	return strings.Join(nodes, "  ")
}

// workflows returns the newest results, by page.
func workflows(op *framework.Operator, pages []v1.WebPage) map[string]*workflow.Result {
	found := map[string]*workflow.Result{}
	for i := range pages {
		key := types.NamespacedName{Namespace: pages[i].Namespace, Name: pages[i].Name}
		if result, any := op.WorkflowResult("webpage", key); any {
			found[key.String()] = result
		}
	}
	return found
}
