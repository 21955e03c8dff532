package testenv_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

func TestTheTruthGoesOnAfterACrashAndEndsAtACompaction(t *testing.T) {
	ctx := t.Context()
	own, err := testenv.Start()
	must(t, err)
	t.Cleanup(func() { must(t, own.Stop()) })
	truth, err := own.Truth(ctx)
	must(t, err)
	maps := clientset(t, own.Config).CoreV1().ConfigMaps("default")
	create := func(name string) {
		_, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{})
		must(t, err)
	}
	create("a")
	must(t, own.Crash(func() error { return nil }))
	create("b")
	must(t, truth.WaitNow(ctx))
	events := slices.DeleteFunc(truth.Events(), func(e testenv.Event) bool {
		return !strings.HasPrefix(e.Key, "/registry/configmaps/default/")
	})
	if len(events) != 2 || !strings.HasSuffix(events[0].Key, "/a") || !strings.HasSuffix(events[1].Key, "/b") {
		t.Errorf("events: %v", events)
	}
	if !slices.IsSortedFunc(truth.Events(), func(a, b testenv.Event) int { return int(a.Revision - b.Revision) }) {
		t.Error("the events are not in order")
	}

	must(t, own.Compact(ctx, events[1].Revision))
	late, err := own.TruthFrom(ctx, events[0].Revision)
	must(t, err)
	if err := late.WaitNow(ctx); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("a history that is compacted: %v", err)
	}
	if err := late.Stop(); err == nil {
		t.Error("the end of the watch is not an error")
	}
	must(t, truth.Stop())
}
