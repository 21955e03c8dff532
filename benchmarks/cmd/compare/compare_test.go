package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
	"github.com/evenkeel/evenkeel/benchmarks/wire"
)

func result(runs, writes, conflicts int, wall, cpu time.Duration, peak uint64) contenders.Result {
	return contenders.Result{
		Objects: 10, Runs: runs, Wall: wall, CPU: cpu, Peak: peak, Counts: wire.Counts{Writes: writes, Conflicts: conflicts},
	}
}

func valuesOf(figures []figure) map[string]float64 {
	values := map[string]float64{}
	for _, f := range figures {
		values[f.name] = f.value
	}
	return values
}

func TestFiguresAreMeansOfCountsAndMediansOfTheRoundsOwnRatios(t *testing.T) {
	s := scenario{suffix: "_x", objects: 10, rounds: 3}
	m := &measurements{idle: round{contenders.Ours: {Peak: 100}, contenders.Peer: {Peak: 200}}, rounds: map[string][]round{}}
	for i, ours := range []contenders.Result{
		result(10, 30, 0, 3*time.Second, time.Second, 200),
		result(10, 30, 0, 20*time.Second, 5*time.Second, 300),
		result(13, 36, 3, 4*time.Second, 2*time.Second, 400),
	} {
		slow := time.Duration([]int{1, 10, 1}[i]) // as a disturbed machine is, for all contenders of a round
		m.rounds["_x"] = append(m.rounds["_x"], round{
			contenders.Ours:         ours,
			contenders.Peer:         result(20, 40, 0, time.Second, 4*time.Second, 400),
			contenders.Raw:          result(10, 30, 0, 2*slow*time.Second, time.Second, 0),
			contenders.RawNoWatches: result(10, 30, 0, slow*time.Second, time.Second, 0),
		})
	}
	got := valuesOf(figuresOf(s, m))
	for name, want := range map[string]float64{
		"runs_per_object_x": 1.1, "requests_per_object_x": 3.2, "conflicts_per_object_x": 0.1,
		"wall_vs_raw_x": 1.5, "wall_vs_raw_nowatch_x": 3, "cpu_vs_peer_x": 0.5, "mem_per_object_vs_peer_x": 1,
	} {
		if d := got[name] - want; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("further figures: %v", got)
	}
}

func TestFiguresLackWhatWasNotMeasured(t *testing.T) {
	m := &measurements{idle: round{}, rounds: map[string][]round{"": {{contenders.Peer: result(1, 1, 0, 1, 1, 1)}, {}}}}
	if figures := figuresOf(scenario{}, m); len(figures) > 0 {
		t.Errorf("figures without ours: %v", figures)
	}
}

func TestALimitIsJudgedAsItIsPrinted(t *testing.T) {
	for _, c := range []struct {
		f     figure
		holds bool
	}{
		{figure{value: 1.004, limited: true, limit: 1}, true},
		{figure{value: 1.006, limited: true, limit: 1}, false},
		{figure{value: 0.01, limited: true, limit: 0}, false},
		{figure{value: 7}, true},
	} {
		if c.f.holds() != c.holds {
			t.Errorf("%+v: want %v", c.f, c.holds)
		}
	}
}

func TestPrintsFiguresForMachines(t *testing.T) {
	plan, err := planOf(quick)
	if err != nil {
		t.Fatal(err)
	}
	m := &measurements{idle: round{}, rounds: map[string][]round{"": {{contenders.Ours: result(20, 40, 0, 1, 1, 1)}}, "_lag1s": {{}}}}
	var out strings.Builder
	print(&out, plan, m)
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{"figure runs_per_object 2.000", "figure requests_per_object 4.000", "figure conflicts_per_object 0.000"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "lag") {
		t.Errorf("there is a table of what was not measured:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "beyond") {
		t.Errorf("what is beyond its limit is not marked:\n%s", out.String())
	}
}

func TestPlan(t *testing.T) {
	second := []time.Duration{time.Second}
	for _, z := range []sizes{
		{0, 0, 1, nil, nil},
		{1, -1, 1, nil, nil},
		{1, 0, 0, nil, nil},
		{1, 0, 1, []time.Duration{0}, nil},
		{1, 0, 1, second, []string{"nobody"}},
	} {
		if _, err := planOf(z); err == nil {
			t.Errorf("%+v is accepted", z)
		}
	}
	for _, c := range []struct {
		sizes sizes
		want  map[string][]string // the contenders by the figures' suffix
	}{
		{
			sizes{10, 50, 2, second, []string{contenders.Ours, contenders.PeerReadYourWrites}},
			map[string][]string{
				"":       {contenders.Ours, contenders.PeerReadYourWrites},
				"_lag1s": {contenders.Ours, contenders.PeerReadYourWrites},
				"_50":    {contenders.Ours},
			},
		},
		{
			sizes{10, 50, 2, []time.Duration{10 * time.Second}, []string{contenders.PeerReadYourWrites}},
			map[string][]string{"": {contenders.PeerReadYourWrites}, "_lag10s": {contenders.PeerReadYourWrites}},
		},
	} {
		plan, err := planOf(c.sizes)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, s := range plan {
			got[s.suffix] = s.names
		}
		if !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%+v: %q, want %q", c.sizes, got, c.want)
		}
	}
}

func TestRoundsBeginWithAnotherContenderEach(t *testing.T) {
	variation := contenders.Peer + "-both"
	s := scenario{names: []string{contenders.Raw, contenders.Ours, variation}}
	for number, want := range [][]string{
		{contenders.Raw, contenders.Ours, variation},
		{contenders.Ours, contenders.Raw},
		{contenders.Raw, contenders.Ours},
	} {
		if got := s.round(number); !slices.Equal(got, want) {
			t.Errorf("round %d: %q, want %q", number, got, want)
		}
	}
	s.names = essential
	for number, want := range [][]string{
		{essential[0], essential[1], essential[2], essential[3]},
		{essential[1], essential[0], essential[3], essential[2]}, // backwards
		{essential[2], essential[3], essential[0], essential[1]},
	} {
		if got := s.round(number); !slices.Equal(got, want) {
			t.Errorf("round %d of the essential: %q, want %q", number, got, want)
		}
	}
	if got := (scenario{names: []string{variation}}).round(1); !slices.Equal(got, []string{variation}) {
		t.Errorf("without any that figures need: %q", got)
	}
}
