package clusterstest

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Without faults, each page has one run, for itself, and one for each change of its copy by others.
func TestG05_TwoClustersWithoutFaults(t *testing.T) {
	w := newWorld(t, far, framework.OperatorOptions{})
	w.settle()
	runs := func(name string) int { _, n := w.saw(trc.Key{Namespace: w.ns, Name: name}); return n }
	for i := range pagesOfWorld {
		if name := string(rune('0' + i)); runs("p"+name) != 1 {
			t.Errorf("p%s: %d runs", name, runs("p"+name))
		}
	}
	w.mark("p0", "theirs")
	w.settle()
	w.writePage("p1", "second")
	w.settle()
	w.mark("p2", "so that what came before has been heard of")
	w.settle()
	for name, want := range map[string]int{"p0": 2, "p1": 2, "p2": 2, "p3": 1} {
		if runs(name) != want {
			t.Errorf("%s: %d runs, want %d", name, runs(name), want)
		}
	}
	if here := w.copy("p0"); w.here.Get(context.Background(), client.ObjectKeyFromObject(here), here) == nil {
		t.Error("there is a copy in the operator's own cluster")
	}
	must(t, w.stop())
}

// The connections to a server that hangs are found dead by themselves, as they are HTTP/2. A proxy
// in between would answer in its place.
func TestG18_TheOtherClusterHangs(t *testing.T) {
	w := newWorld(t, far, framework.OperatorOptions{}, func(config *rest.Config) { *config = *rest.CopyConfig(far.Config) })
	w.settle()
	must(t, far.Pause())
	resumed := false
	defer func() {
		if !resumed {
			must(t, far.Resume())
		}
	}()
	w.writePage("p0", "during")
	w.awaitLocal("p0", "during")
	w.awaitUnready()
	resumed = true
	must(t, far.Resume())
	w.disturb("after")
	w.settle()
	must(t, w.stop())
}

func TestG04_TheOtherClusterCrashesAndComesBack(t *testing.T) {
	w := newWorld(t, far, framework.OperatorOptions{})
	w.settle()
	w.mark("p1", "before")
	must(t, far.Crash(func() error {
		w.writePage("p0", "during")
		w.createPage("new")
		w.awaitLocal("new", "first")
		w.awaitUnready()
		return nil
	}))
	w.disturb("after")
	w.settle()
	must(t, w.stop())
}

// What was written after the backup never happened, and versions go back.
func TestG04_TheOtherClusterComesBackFromABackup(t *testing.T) {
	w := newWorld(t, far, framework.OperatorOptions{})
	w.settle()
	w.mark("p1", "before")
	w.settle()
	restore, err := far.Backup()
	must(t, err)
	for _, round := range []string{"a", "b", "c"} {
		w.disturb(round)
		w.settle()
	}
	w.forget()
	must(t, restore())
	w.settle()
	w.disturb("after")
	w.settle()
	must(t, w.stop())
}
