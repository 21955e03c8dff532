package prometheus_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kubebuilders are the queries of the two dashboards that kubebuilder makes, without their
// functions: names, and the labels that they group by.
var kubebuilders = []string{
	`controller_runtime_active_workers`, `controller_runtime_reconcile_total`, `controller_runtime_reconcile_errors_total`,
	`workqueue_depth`, `sum by (name, le) (workqueue_queue_duration_seconds_bucket)`, `sum by (name) (workqueue_adds_total)`,
	`workqueue_unfinished_work_seconds`, `sum by (name, le) (workqueue_work_duration_seconds_bucket)`, `sum by (name) (workqueue_retries_total)`,
	`process_cpu_seconds_total`, `process_resident_memory_bytes`,
}

var (
	nameIn   = regexp.MustCompile(`\b[a-z]+(?:_[a-z0-9]+)+\b`)
	labelIn  = regexp.MustCompile(`([a-z]+)="`)
	groupsIn = regexp.MustCompile(`by \(([^)]*)\)`)
	// ofScrape are labels that Prometheus adds.
	ofScrape = []string{"job", "instance"}
)

// TestEachQueryFindsSeries: each name is that of a metric in a scrape, and has the labels that the
// query groups by.
func TestEachQueryFindsSeries(t *testing.T) {
	labels := map[string][]string{} // of each name
	for line := range strings.Lines(scrape(t, full())) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, _, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(series, "{")
		labels[name] = nil
		for _, label := range labelIn.FindAllStringSubmatch(rest, -1) {
			labels[name] = append(labels[name], label[1])
		}
	}
	queries := slices.Concat(kubebuilders, ofTheDashboard(t), ofTheAlerts(t))
	if len(queries) < 35 {
		t.Errorf("only %d queries were found", len(queries))
	}
	for _, query := range queries {
		var metrics []string
		for _, name := range nameIn.FindAllString(query, -1) {
			if strings.HasPrefix(name, "histogram_") {
				continue
			}
			if metrics = append(metrics, name); labels[name] == nil && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s: no series is named %s", query, name)
			}
		}
		if len(metrics) != 1 {
			t.Errorf("%s: is about %q", query, metrics)
			continue
		}
		for _, group := range groupsIn.FindAllStringSubmatch(query, -1) {
			for label := range strings.SplitSeq(group[1], ", ") {
				if !slices.Contains(append(labels[metrics[0]], ofScrape...), label) {
					t.Errorf("%s: %s has no label %s", query, metrics[0], label)
				}
			}
		}
	}
}

func ofTheDashboard(t *testing.T) (queries []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	parse(t, "../../docs/seeing/dashboard.json", json.Unmarshal, &dashboard)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

func ofTheAlerts(t *testing.T) (queries []string) {
	t.Helper()
	var alerts struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	parse(t, "../../docs/seeing/alerts.yaml", func(data []byte, into any) error { return yaml.Unmarshal(data, into) }, &alerts)
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			queries = append(queries, rule.Expr)
		}
	}
	return queries
}

func parse(t *testing.T, file string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
