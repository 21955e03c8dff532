package main

import (
	"slices"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
)

// figure is one number of the comparison.
type figure struct {
	name    string
	value   float64
	limited bool
	limit   float64 // if limited
}

// holds reports whether the figure, as printed, is within its limit.
func (f figure) holds() bool { return !f.limited || f.value < f.limit+0.005 }

// none is the limit of figures without one.
const none = -1

// figuresOf returns the figures of a scenario: counts as means over its rounds, ratios as medians
// of each round's own ratio, since what disturbs a machine disturbs neighbours alike. Those whose
// contenders were not measured are left out.
func figuresOf(s scenario, m *measurements) []figure {
	var all []figure
	add := func(name string, limit float64, values []float64, summary func([]float64) float64) {
		if len(values) > 0 {
			all = append(all, figure{name + s.suffix, summary(values), limit >= 0, limit})
		}
	}
	rounds := m.rounds[s.suffix]
	count := func(of func(contenders.Result) int) []float64 {
		return each(rounds, contenders.Ours, contenders.Ours, func(ours, _ contenders.Result) float64 { return perObject(of(ours), ours) })
	}
	add("runs_per_object", 1, count(func(r contenders.Result) int { return r.Runs }), mean)
	add("requests_per_object", 3, count(func(r contenders.Result) int { return r.Writes }), mean)
	add("conflicts_per_object", 0, count(func(r contenders.Result) int { return r.Conflicts }), mean)
	wall := func(a, b contenders.Result) float64 { return ratio(a.Wall.Seconds(), b.Wall.Seconds()) }
	add("wall_vs_raw", 1.15, each(rounds, contenders.Ours, contenders.Raw, wall), median)
	add("wall_vs_raw_nowatch", 1.35, each(rounds, contenders.Ours, contenders.RawNoWatches, wall), median)
	add("cpu_vs_peer", 0.65, each(rounds, contenders.Ours, contenders.Peer, func(a, b contenders.Result) float64 {
		return ratio(a.CPU.Seconds(), b.CPU.Seconds())
	}), median)
	add("mem_per_object_vs_peer", none, each(rounds, contenders.Ours, contenders.Peer, func(a, b contenders.Result) float64 {
		return ratio(m.peak(contenders.Ours, a), m.peak(contenders.Peer, b))
	}), median)
	return all
}

// each returns a value for every round that measured both contenders.
func each(rounds []round, a, b string, value func(a, b contenders.Result) float64) []float64 {
	var values []float64
	for _, r := range rounds {
		one, haveOne := r[a]
		other, haveOther := r[b]
		if haveOne && haveOther {
			values = append(values, value(one, other))
		}
	}
	return values
}

// peak is the peak of memory per object beyond what the process needs without objects, in bytes.
func (m *measurements) peak(name string, r contenders.Result) float64 {
	return perObject(float64(r.Peak)-float64(m.idle[name].Peak), r)
}

// live is what the objects leave on the heap per object, in bytes.
func (m *measurements) live(name string, r contenders.Result) float64 {
	return perObject(float64(r.Live)-float64(m.idle[name].Live), r)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
