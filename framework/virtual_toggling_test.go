package framework_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/scheduler"
)

// TestG04G16ActivationTogglesForManyPrimariesAtOnce: no pass reads what is not there, each primary
// ends as it wants, and nothing is left. Requests fail and watches end meanwhile.
func TestG04G16ActivationTogglesForManyPrimariesAtOnce(t *testing.T) {
	for seed := range depth.Of(uint64(5), 20, 200) {
		random := rand.New(rand.NewPCG(seed, 16))
		s := newScript()
		var others framework.Secondary[*corev1.ConfigMap]
		others.Name = "others"
		first := s.reads(t, activeBy(s.node("first")), &s.configMaps)
		second := s.reads(t, activeBy(s.node("second")), &s.configMaps)
		third := s.reads(t, activeBy(s.node("third", "first")), &others)
		options := pageOptions{Workflow: flowOf(first, second, third), Concurrency: 4, MaxInterval: scheduler.NoMaxInterval}
		inVirtualTime(t, noCleaner{s}, options, func(v *virtual) {
			v.createPage("z", "none")
			v.pass(time.Minute)
			goroutines := bubbled()
			var mu sync.Mutex // guards the random numbers, which requests ask for, too
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			v.disturb(func(r apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: draw(5) == 0} })
			for step := range 60 {
				page := newPage("default", fmt.Sprint("p", draw(5)))
				page.Spec.HTML = fmt.Sprint(step)
				for _, word := range []string{"first", "second", "third"} {
					if draw(2) == 0 {
						page.Spec.HTML += " " + word
					}
				}
				err := error(nil)
				switch draw(9) {
				case 0:
					v.model.Cut("configmaps")
				case 1, 2:
					err = v.admin.Delete(v.t.Context(), page)
				default:
					if err = v.admin.Create(v.t.Context(), page.DeepCopy()); apierrors.IsAlreadyExists(err) {
						err = nil
						v.touch(page.Name, page.Spec.HTML)
					}
				}
				if !apierrors.IsNotFound(err) {
					noError(v.t, err)
				}
				v.pass(time.Duration(draw(3)*draw(2000)) * time.Millisecond)
			}
			v.disturb(nil)
			v.pass(10 * time.Minute)
			wants := map[string]string{}
			for _, o := range v.model.Objects("webpages") {
				if wants[o.GetName()] = v.page(o.GetName()).Spec.HTML; o.GetDeletionTimestamp() != nil {
					t.Errorf("seed %d: %s is still there", seed, o.GetName())
				}
			}
			delete(wants, "z")
			if n := v.op.Occupancy().WorkflowResults; n != len(wants)+1 {
				t.Errorf("seed %d: %d results of %d primaries", seed, n, len(wants)+1)
			}
			for name, html := range wants {
				result, _ := v.op.WorkflowResult("webpage", pageKey(name))
				for _, n := range result.Nodes {
					want := workflow.Inactive
					if strings.Contains(html, n.Name) {
						want = workflow.Ready
						if n.Name == "third" && !strings.Contains(html, "first") {
							want = workflow.Deleted
						}
					}
					if n.State != want {
						t.Errorf("seed %d: %s wants %q, node %v, want %v", seed, name, html, n, want)
					}
				}
				v.touch(name, "none")
			}
			v.pass(10 * time.Minute)
			v.holdsNothing(1, goroutines)
		})
	}
}

func pageKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// TestG16APrimaryThatGoesDuringItsRunTakesItsHoldsWithIt: what reads on is told that it is
// inactive, not that nothing is there.
func TestG16APrimaryThatGoesDuringItsRunTakesItsHoldsWithIt(t *testing.T) {
	s := newScript()
	n := activeBy(s.node("on"))
	n.Delete, n.DeletePostcondition = nil, nil // no finalizer
	n.Secondaries = framework.Secondaries(&s.configMaps)
	var read error
	s.on("on", func(_ context.Context, c *pageContext) error {
		time.Sleep(2 * time.Second)
		_, read = s.configMaps.List(c)
		return read
	})
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.createPage("p", "on")
		time.Sleep(time.Second) // in the node
		v.delete("p")
		v.pass(time.Minute)
		if now := v.op.Occupancy(); !errors.Is(read, framework.ErrInactive) || now.DynamicSources != 0 || len(now.Caches) != 1 {
			t.Errorf("read: %v; %d sources, %d caches are left", read, now.DynamicSources, len(now.Caches))
		}
		v.drained()
	})
}
