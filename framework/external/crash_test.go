package external_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// sixDependents of a shop, of all sorts: two in the API server; a database and a bucket whose ids
// are in the status; queues whose ids are in a ConfigMap; a listing whose key is the shop's.
func sixDependents(t *testing.T, a *account) dependents {
	config := configMap("config", func(_ context.Context, shop *Shop, _ *shopContext) (string, error) { return shop.Spec.Size, nil })
	database := &external.Value[*Shop, thing]{
		Name: "database", DependsOn: []string{"config"},
		Desired: desiredThing("database"), Matches: sameContent,
		Create: a.creating("database"), Update: a.updating(), Remove: a.removing(),
		State: inDatabaseStatus(), ID: idOf, ByID: a.byID, Find: a.oneTagged,
		Ready: func(t thing) workflow.Verdict { return workflow.Verdict{Met: t.Content != ""} },
	}
	address := configMap("address", func(ctx context.Context, _ *Shop, c *shopContext) (string, error) {
		found, _, err := database.Get(ctx, c)
		return "content " + found.Content, err
	})
	address.DependsOn = []string{"database"}
	bucket := &external.Value[*Shop, thing]{
		Name: "bucket", DependsOn: []string{"config"},
		Desired: desiredThing("bucket"), Matches: sameContent,
		Create: a.creating("bucket"), Remove: a.removing(), Update: a.updating(),
		State: inBucketStatus(), ID: idOf, ByID: a.byID, Find: a.oneTagged,
	}
	queues := &external.Values[*Shop, thing]{
		Name: "queues", DependsOn: []string{"database"},
		Desired: desiredQueues, Matches: sameContent,
		Create: a.creating("queue"), Update: a.updating(), Remove: a.removing(),
		State: &external.InConfigMap[*Shop]{}, ID: idOf, ByID: a.byID, Find: a.tagged,
	}
	listings := polling(t, a, "listing", time.Minute)
	listing := &external.Value[*Shop, thing]{
		Name: "listing", DependsOn: []string{"queues"},
		Desired: desiredThing("listing"), Matches: sameContent, Source: listings,
		Observe: func(_ context.Context, c *shopContext) (thing, bool, error) {
			found, err := a.owned("listing", c.Key().Name)
			t, exists := found[""]
			return t, exists, err
		},
		Create: a.creating("listing"), Update: a.updating(), Remove: a.removing(),
	}
	return dependents{config, database, address, bucket, queues, listing}
}

func idOf(t thing) string { return t.ID }

func desiredThing(kind string) func(context.Context, *Shop, *shopContext) (thing, error) {
	return func(_ context.Context, shop *Shop, _ *shopContext) (thing, error) {
		return thing{Kind: kind, Owner: shop.Name, Content: shop.Spec.Size}, nil
	}
}

func desiredQueues(_ context.Context, shop *Shop, _ *shopContext) (map[string]thing, error) {
	all := map[string]thing{}
	for _, name := range shop.Spec.Queues {
		all[name] = thing{Kind: "queue", Owner: shop.Name, Key: name, Content: shop.Spec.Size}
	}
	return all, nil
}

func (a *account) creating(string) func(context.Context, *shopContext, thing, external.Creation) (thing, error) {
	return func(ctx context.Context, _ *shopContext, t thing, as external.Creation) (thing, error) {
		t.Tag, t.Key = as.Tag, as.Key
		return a.create(ctx, t, as.Token)
	}
}

func (a *account) updating() func(context.Context, *shopContext, thing, thing) (thing, error) {
	return func(ctx context.Context, _ *shopContext, actual, desired thing) (thing, error) {
		actual.Content = desired.Content
		return a.update(ctx, actual)
	}
}

func (a *account) removing() func(context.Context, *shopContext, thing) error {
	return func(ctx context.Context, _ *shopContext, t thing) error { return a.remove(ctx, t) }
}

// configMap is one of a shop. There is no garbage collector in these tests.
func configMap(name string, content func(context.Context, *Shop, *shopContext) (string, error)) *dependent.Kubernetes[*Shop, *corev1.ConfigMap] {
	return &dependent.Kubernetes[*Shop, *corev1.ConfigMap]{
		Name: name, Tie: dependent.OwnedAndDeleted,
		Key: func(shop *Shop) types.NamespacedName {
			return types.NamespacedName{Namespace: shop.Namespace, Name: shop.Name + "-" + name}
		},
		Desired: func(ctx context.Context, shop *Shop, c *shopContext) (*corev1.ConfigMap, error) {
			said, err := content(ctx, shop, c)
			return &corev1.ConfigMap{Data: map[string]string{"content": said}}, err
		},
	}
}

// outcome is what a life of a shop has left behind.
type outcome struct {
	Things    [][]string // in the cloud, after each step
	Maps      [][]string
	Recorded  []bool
	Calls     map[string]int // that reached the cloud
	Additions int            // of objects in the API server
	Deletions int
}

// liveThrough is the life of a shop, in which the first process dies where the fuse says.
func liveThrough(t *testing.T, f *fuse) (left outcome, writes int) {
	inWorld(t, func(w *world) {
		w.start(f, sixDependents(t, &account{cloud: w.cloud, fuse: f}))
		restarted := false
		settle := func() {
			for range 2 {
				w.pass(20 * time.Minute)
				if f.isDead() && !restarted {
					restarted = true
					w.start(nil, sixDependents(t, &account{cloud: w.cloud}))
				}
			}
			left.Things = append(left.Things, w.cloud.state())
			left.Maps = append(left.Maps, w.contents())
			shop := w.shop("corner")
			left.Recorded = append(left.Recorded, shop != nil && shop.Status.Database.ID != "" && shop.Status.Bucket.ID != "")
		}
		w.create("corner", ShopSpec{Size: "small", Queues: []string{"a", "b"}})
		settle()
		w.patch("corner", `{"spec":{"size":"large","queues":["b","c"]}}`)
		settle()
		w.patch("corner", `{"spec":{"queues":null}}`)
		settle()
		w.delete("corner")
		settle()
		if shop := w.shop("corner"); shop != nil {
			t.Errorf("the shop is still there: %v", shop)
		}
		left.Calls = w.cloud.counts()
		for _, c := range w.model.History() {
			switch c.Event {
			case "ADDED":
				left.Additions++
			case "DELETED":
				left.Deletions++
			}
		}
		writes = f.writes()
	})
	return left, writes
}

// contents returns the contents of the ConfigMaps without their random parts.
func (w *world) contents() []string {
	all := []string{}
	for _, o := range w.model.Objects("configmaps") {
		data, _ := o.Object["data"].(map[string]any)
		_, hasRecords := data["records.json"]
		all = append(all, fmt.Sprint(o.GetLabels(), o.GetFinalizers(), data["content"], hasRecords))
	}
	return all
}

// TestG13ACrashAtAnyWriteNeitherForgetsNorDoubles: before any write to the API server or to the
// cloud, after its commit, or after its answer. With the race detector it is every tenth write.
func TestG13ACrashAtAnyWriteNeitherForgetsNorDoubles(t *testing.T) {
	want, writes := liveThrough(t, &fuse{})
	t.Logf("%d writes: %+v", writes, want)
	if writes < 30 || len(want.Things[0]) != 5 || len(want.Things[3]) != 0 || len(want.Maps[3]) != 0 {
		t.Fatalf("the undisturbed life is not what it should be: %d writes, %+v", writes, want)
	}
	step := depth.Of(10, 1, 1)
	for _, when := range []moment{beforeRequest, afterCommit, afterAnswer} {
		at := 1
		for dies := true; dies; at += step {
			t.Run(fmt.Sprintf("%v write %d", when, at), func(t *testing.T) {
				f := &fuse{at: at, when: when}
				got, _ := liveThrough(t, f)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got\n%+v, want\n%+v", got, want)
				}
				dies = f.isDead()
			})
		}
		// As many as there were, but for conflicts of two dependents that write the status at a time.
		if at < writes-3 {
			t.Errorf("%v: died until write %d only, of %d", when, at-2*step, writes)
		}
	}
}

// TestG13TheWayToASpecificationDoesNotMatter: it comes to the same end at once as through others.
func TestG13TheWayToASpecificationDoesNotMatter(t *testing.T) {
	end := func(ways ...ShopSpec) (got outcome) {
		inWorld(t, func(w *world) {
			w.start(nil, sixDependents(t, &account{cloud: w.cloud}))
			w.create("corner", ways[0])
			for _, next := range ways[1:] {
				w.pass(time.Hour)
				content, err := json.Marshal(map[string]any{"spec": next})
				noError(w.T, err)
				w.patch("corner", `{"spec":null}`)
				w.patch("corner", string(content))
			}
			w.pass(time.Hour)
			got.Things, got.Maps = [][]string{w.cloud.state()}, [][]string{w.contents()}
		})
		return got
	}
	want := end(ShopSpec{Size: "3", Queues: []string{"c", "d"}})
	for _, before := range []ShopSpec{{Size: "3"}, {Size: "1", Queues: []string{"a", "c"}}, {Size: "2", Queues: []string{"d", "c", "b"}}} {
		if got := end(before, ShopSpec{Size: "2"}, ShopSpec{Size: "3", Queues: []string{"c", "d"}}); !reflect.DeepEqual(got, want) {
			t.Errorf("after %+v: got %+v, want %+v", before, got, want)
		}
	}
}
