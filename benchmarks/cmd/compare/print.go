package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
)

// print says who contends, and prints a table for each scenario, the figures beside their limits,
// and the figures once more for machines.
func print(out io.Writer, plan []scenario, m *measurements) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	for _, c := range contenders.All() {
		fmt.Fprintf(w, "%s\t%s\n", c.Name, c.About)
	}
	_ = w.Flush()
	var figures []figure
	for _, s := range plan {
		measured := func(r round) bool { return len(r) > 0 }
		if !slices.ContainsFunc(m.rounds[s.suffix], measured) {
			continue // the budget was used up before
		}
		printScenario(out, s, m)
		figures = append(figures, figuresOf(s, m)...)
	}
	fmt.Fprint(w, "\nfigure\tmeasured\tlimit\t\n")
	for _, f := range figures {
		limit, verdict := "", ""
		if f.limited {
			limit = fmt.Sprintf("%.2f", f.limit)
		}
		if !f.holds() {
			verdict = "beyond"
		}
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\n", f.name, f.value, limit, verdict)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	for _, f := range figures {
		fmt.Fprintf(out, "figure %s %.3f\n", f.name, f.value)
	}
}

// column is a number of a table, taken from every round and summarised.
type column struct {
	title   string
	format  string
	value   func(name string, r contenders.Result) float64
	summary func([]float64) float64
}

func columns(m *measurements) []column {
	count := func(title string, of func(contenders.Result) int) column {
		return column{title, "%.2f", func(_ string, r contenders.Result) float64 { return perObject(of(r), r) }, mean}
	}
	return []column{
		count("runs", func(r contenders.Result) int { return r.Runs }),
		count("writes", func(r contenders.Result) int { return r.Writes }),
		count("conflicts", func(r contenders.Result) int { return r.Conflicts }),
		count("failures", func(r contenders.Result) int { return r.Failures }),
		{"reads in all", "%.0f", func(_ string, r contenders.Result) float64 { return float64(r.Reads) }, mean},
		{"watches", "%.0f", func(_ string, r contenders.Result) float64 { return float64(r.Watches) }, mean},
		{"wall s", "%.2f", func(_ string, r contenders.Result) float64 { return r.Wall.Seconds() }, median},
		{"tail s", "%.2f", func(_ string, r contenders.Result) float64 { return r.Tail.Seconds() }, median},
		{"longest read ms", "%.1f", func(_ string, r contenders.Result) float64 { return r.LongestRead.Seconds() * 1000 }, median},
		{"CPU ms", "%.2f", func(_ string, r contenders.Result) float64 { return perObject(r.CPU.Seconds()*1000, r) }, median},
		{"allocated KiB", "%.1f", func(_ string, r contenders.Result) float64 { return perObject(float64(r.Allocated), r) / 1024 }, median},
		{"allocations", "%.0f", func(_ string, r contenders.Result) float64 { return perObject(float64(r.Allocations), r) }, median},
		{"peak KiB", "%.1f", func(name string, r contenders.Result) float64 { return m.peak(name, r) / 1024 }, median},
		{"live KiB", "%.1f", func(name string, r contenders.Result) float64 { return m.live(name, r) / 1024 }, median},
	}
}

func printScenario(out io.Writer, s scenario, m *measurements) {
	rounds := m.rounds[s.suffix]
	fmt.Fprintf(out, "\n%s, rounds: %d; runs to failures, CPU, memory per object\n", s, len(rounds))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := columns(m)
	fmt.Fprint(w, "\t")
	for _, c := range all {
		fmt.Fprintf(w, "%s\t", c.title)
	}
	fmt.Fprintln(w)
	for _, name := range s.names {
		var values [][]float64
		for _, c := range all {
			values = append(values, each(rounds, name, name, func(r, _ contenders.Result) float64 { return c.value(name, r) }))
		}
		if len(values[0]) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t", name)
		for i, c := range all {
			fmt.Fprintf(w, c.format+"\t", c.summary(values[i]))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}
