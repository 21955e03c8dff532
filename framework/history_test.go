package framework_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestARecordTellsWhatWasProvenAndWhatWasReadAheadOfTheWatch(t *testing.T) {
	d, wrote := newDiary(), false
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if wrote {
			_, err := d.configMaps.List(c)
			return pageUpdate{}, err
		}
		wrote = true
		m := configMapOf(page, "x")
		for _, write := range []func() error{
			func() error { _, err := framework.Apply(ctx, c, m, framework.OwnedByPrimary()); return err },
			func() error {
				_, err := framework.Apply(ctx, c, configMapOf(page, "y"), framework.OwnedByPrimary())
				return err
			},
			func() error {
				_, err := framework.MergePatch(ctx, c, configMapOf(page, ""), []byte(`{"data":{"data":"y"}}`))
				return err
			},
			func() error {
				_, err := framework.MergePatch(ctx, c, configMapOf(page, ""), []byte(`{"data":{"data":"z"}}`), framework.Unconditional())
				return err
			},
			func() error { _, err := d.configMaps.List(c); return err },
			func() error { _, err := d.configMaps.GetNamed(c, page.Namespace, page.Name); return err },
		} {
			if err := write(); err != nil {
				return pageUpdate{}, err
			}
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
		v.model.Stall("configmaps")
		v.createPage("p", "a")
		v.pass(time.Second)
		record := v.op.Records("webpage")[0]
		want := []timeline.Request{
			{Text: "apply ConfigMap default/p", Verb: "apply", Proof: timeline.Created},
			{Text: "apply ConfigMap default/p", Verb: "apply", Proof: timeline.Followed},
			{Text: "patch ConfigMap default/p", Verb: "patch", Proof: timeline.Unchanged},
			{Text: "patch ConfigMap default/p", Verb: "patch", Proof: timeline.Unproven},
		}
		if !slices.Equal(record.Requests, want) || record.ReadsAhead != 2 || record.Err != "" {
			t.Errorf("requests %v, %d reads ahead, error %q", record.Requests, record.ReadsAhead, record.Err)
		}
		v.model.Release("configmaps")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		records := v.op.Records("webpage")
		if last := records[len(records)-1]; last.ReadsAhead != 0 {
			t.Errorf("%d reads ahead after the watch has caught up", last.ReadsAhead)
		}
	})
}

func TestG16TheHistoryOfAPrimaryEndsWithIt(t *testing.T) {
	for _, all := range []bool{false, true} {
		d := newDiary()
		var mu sync.Mutex // guards seen: two pages run at a time
		var seen []int
		d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, len(c.History()))
			return pageUpdate{}, nil
		}
		inVirtualTime(t, d, pageOptions{KeepRecordsPerPrimary: 2, AllEvents: all}, func(v *virtual) {
			v.createPage("p", "a")
			v.createPage("q", "a")
			v.pass(time.Second)
			for i := range 3 {
				v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i))
				v.pass(time.Second)
			}
			p := types.NamespacedName{Namespace: "default", Name: "p"}
			if kept := v.op.History("webpage", p); len(kept) != 2 || kept[1].Key != "default/p" || !slices.Equal(seen, []int{0, 0, 1, 2, 2}) {
				t.Errorf("kept %v, seen %v", kept, seen)
			}
			d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
				time.Sleep(time.Second)
				return pageUpdate{}, nil
			}
			v.patch(newPage("default", "q"), `{"spec":{"html":"long"}}`)
			time.Sleep(time.Millisecond)
			v.delete("p")
			v.delete("q") // during its run
			v.pass(time.Minute)
			if n := framework.Histories(v.op); n != 0 {
				t.Errorf("records of %d primaries are kept that are gone", n)
			}
		})
	}
}

func TestARecordThatNobodyReadsCostsNothing(t *testing.T) {
	op := offline(t)
	noError(t, framework.Register(op, &pages{}, pageOptions{}))
	for _, outcome := range []timeline.Outcome{timeline.Succeeded, timeline.Failed} {
		if n := framework.RecordAllocations(op, timeline.Record{Outcome: outcome}); n != 0 {
			t.Errorf("%v allocations per record that %v, want 0", n, outcome)
		}
	}
}
