package contenders

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// TestContendersDoTheWork lets every contender work on a few objects, with and without lag. It
// judges what they did and that it was counted, not how well.
func TestContendersDoTheWork(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	server, err := testenv.Start(testenv.WebPageCRDs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, contender := range All() {
		if strings.HasPrefix(contender.Name, Peer+"-") {
			continue // the peer refuses a second controller of one name in a process, and they differ in a setting only
		}
		const objects = 5
		if err := work.Create(ctx, admin, contender.Name, objects); err != nil {
			t.Fatal(err)
		}
		if err := work.Check(ctx, admin, contender.Name, objects); err == nil {
			t.Errorf("%s: the work is done before it began", contender.Name)
		}
		task := Task{Namespace: contender.Name, Objects: objects, Workers: 2}
		r, err := Measure(ctx, contender, server.Config, task, Conditions{Lag: 100 * time.Millisecond, Settle: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if err := work.Check(ctx, admin, contender.Name, objects); err != nil {
			t.Errorf("%s: %v", contender.Name, err)
		}
		if r.Runs < objects || r.Writes < 3*objects || r.Wall <= 0 || r.CPU <= 0 || r.Peak == 0 || r.Live == 0 {
			t.Errorf("%s: not all was counted: %+v", contender.Name, r)
		}
		if watches := r.Watches > 0; watches == (contender.Name == RawNoWatches) {
			t.Errorf("%s: %d watches", contender.Name, r.Watches)
		}
	}
}

func TestAContenderThatEndsIsAnError(t *testing.T) {
	c := Contender{Name: "short", run: func(context.Context, *rest.Config, Task, *Tally) error { return nil }}
	_, err := Measure(t.Context(), c, &rest.Config{}, Task{Objects: 1}, Conditions{})
	if err == nil || !strings.Contains(err.Error(), "before it was done") {
		t.Errorf("got %v", err)
	}
}

func TestNamed(t *testing.T) {
	for _, c := range All() {
		if found, err := Named(c.Name); err != nil || found.Name != c.Name {
			t.Errorf("%s: %v, %v", c.Name, found.Name, err)
		}
	}
	if _, err := Named("nobody"); err == nil {
		t.Error("there is a nobody")
	}
}
