package controllerruntime_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/testenv"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func cpuTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The same reconciler side by side on a real API server. The processor time is that of the whole
// test process, which also waits for the objects by asking.
func TestSideBySideOnAServer(t *testing.T) {
	server, err := testenv.Start(crds)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	const n = 50
	for _, name := range []string{"controller-runtime", "evenkeel"} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, server.Config, managers[name], options(t))
			r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
			if err := build(w.manager, r); err != nil {
				t.Fatal(err)
			}
			w.start()
			begin, used := time.Now(), cpuTime(t)
			for i := range n {
				w.create(fmt.Sprint("p", i), "a")
			}
			for i := range n {
				w.shown(fmt.Sprint("p", i), "a")
			}
			took := time.Since(begin)
			time.Sleep(time.Second)
			runs, writes, conflicts := r.runs.Load(), w.writes.Load(), w.conflicts.Load()
			t.Logf("per object: %.2f runs, %.2f writes, %.2f conflicts, %.2f requests, %v of the processor; %v in all",
				float64(runs)/n, float64(writes)/n, float64(conflicts)/n, float64(w.requests.Load())/n, (cpuTime(t)-used)/n, took.Round(time.Millisecond))
			if name == "evenkeel" {
				fmt.Printf("figure adapter_runs_per_object %.2f\nfigure adapter_writes_per_object %.2f\nfigure adapter_conflicts_per_object %.2f\n",
					float64(runs)/n, float64(writes)/n, float64(conflicts)/n)
				if runs != n || writes != 3*n || conflicts != 0 {
					t.Errorf("%d runs, %d writes, %d conflicts of %d objects", runs, writes, conflicts, n)
				}
			}
			if err := w.admin.DeleteAllOf(t.Context(), &v1.WebPage{}, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			if err := w.admin.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			w.await("the end of the pages", func() error {
				left := &v1.WebPageList{}
				if err := w.admin.List(t.Context(), left, client.InNamespace("default")); err != nil || len(left.Items) > 0 {
					return errors.Join(err, fmt.Errorf("%d are left", len(left.Items)))
				}
				return nil
			})
		})
	}
}
