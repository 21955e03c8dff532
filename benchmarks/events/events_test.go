package events_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// limits are what an event may cost ours, as a part of what it costs the peer: between store and
// offer, and in all.
const limit, limitWithDecoding = 0.7, 1.0

// working is a contender that has taken in its first list.
type working struct {
	*feed
	*offers
}

func begin(t testing.TB, make making, decoded bool) working {
	t.Helper()
	w := working{newFeed(t, decoded), newOffers()}
	w.left.Store(objects)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	make(ctx, t, w.feed, w.offers)
	<-w.done
	return w
}

// prepare makes a round of events, ready to be sent; each leads to one offer, which round waits
// for.
func (w working) round(t testing.TB, events int) (round func()) {
	t.Helper()
	send := w.prepare(t, w.next(events))
	return func() {
		w.left.Store(int64(events))
		send()
		<-w.done
	}
}

func TestEveryEventIsOneOffer(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		for _, c := range contenders {
			t.Run(fmt.Sprintf("%s/decoded=%v", c.name, decoded), func(t *testing.T) {
				w := begin(t, c.make, decoded)
				for range 3 {
					w.round(t, 1000)()
				}
				select {
				case <-w.done:
					t.Error("there are more offers than events")
				default:
				}
				if left := w.left.Load(); left != 0 {
					t.Errorf("%d offers are left", left)
				}
			})
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, decoded := range []bool{false, true} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%s/decoded=%v", c.name, decoded), func(b *testing.B) {
				const batch = 1000
				w := begin(b, c.make, decoded)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					round := w.round(b, batch)
					b.StartTimer()
					round()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/event")
			})
		}
	}
}

// TestFigures prints how an event of ours fares; make bench runs it.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	for _, decoded := range []bool{false, true} {
		cost := inTurns(t, decoded)
		alone := cost["reflector"]
		t.Logf("decoded %v, microseconds of CPU per event: evenkeel %.2f, controller-runtime %.2f, client-go %.2f, the reflector alone %.2f",
			decoded, cost["evenkeel"], cost["controller-runtime"], cost["client-go"], alone)
		suffix, most := "", limit
		if decoded {
			alone, suffix, most = 0, "_with_decoding", limitWithDecoding
		}
		for _, peer := range []struct{ name, figure string }{
			{"controller-runtime", "source_cpu_per_event_vs_peer"}, {"client-go", "source_cpu_per_event_vs_client_go"},
		} {
			ratio := (cost["evenkeel"] - alone) / (cost[peer.name] - alone)
			fmt.Printf("figure %s%s %.2f\n", peer.figure, suffix, ratio)
			if ratio > most {
				t.Logf("beyond the limit of %.2f", most)
			}
		}
	}
}

// inTurns is the median over rounds in turns of what an event costs each contender, in microseconds
// of CPU.
func inTurns(t *testing.T, decoded bool) map[string]float64 {
	const rounds, events = 21, 20_000
	all, costs := map[string]working{}, map[string][]float64{}
	for _, c := range contenders {
		all[c.name] = begin(t, c.make, decoded)
	}
	for i := range rounds + 1 {
		for j := range contenders {
			name := contenders[(i+j)%len(contenders)].name
			round := all[name].round(t, events)
			runtime.GC()
			used := cpuTime(t)
			round()
			if i > 0 { // the first warms up
				costs[name] = append(costs[name], float64(cpuTime(t)-used)/1000/events)
			}
		}
	}
	medians := map[string]float64{}
	for name, cost := range costs {
		slices.Sort(cost)
		medians[name] = cost[len(cost)/2]
	}
	return medians
}

func cpuTime(t *testing.T) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
