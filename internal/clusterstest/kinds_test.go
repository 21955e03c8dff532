package clusterstest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

type anything = unstructured.Unstructured

// boats is a kind that comes and goes; a page's has its name.
var boats = schema.GroupVersionKind{Group: "sea.example.com", Version: "v1", Kind: "Boat"}

func boat(ns, name string) *anything {
	b := &anything{}
	b.SetGroupVersionKind(boats)
	b.SetNamespace(ns)
	b.SetName(name)
	return b
}

func definitionOfBoats() *anything {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &anything{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "boats." + boats.Group},
		"spec": map[string]any{
			"group": boats.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": "Boat", "listKind": "BoatList", "plural": "boats", "singular": "boat"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": open},
			}},
		},
	}}
}

// lookout tells whether each page had a boat in its last run.
type lookout struct {
	boats framework.Secondary[*anything]

	mu   sync.Mutex // guards below
	sees map[string]bool
}

func (r *lookout) Reconcile(_ context.Context, p *page, c *pageContext) (none pageUpdate, err error) {
	found, err := r.boats.Get(c)
	if err != nil {
		return none, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sees[p.Name] = found != nil
	return none, nil
}

func (r *lookout) says(name string, has bool) func() string {
	return func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if seen, ran := r.sees[name]; !ran || seen != has {
			return fmt.Sprintf("the last run of %s: %v, whether it saw a boat: %v, want %v", name, ran, seen, has)
		}
		return ""
	}
}

// A kind is missing at first, comes, is removed with all there is of it, and comes back, while
// others go on.
func TestG04_G18_AKindMayBeRemovedAndInstalledAgain(t *testing.T) {
	for place, env := range places() {
		t.Run(place, func(t *testing.T) {
			w := newWorld(t, env, framework.OperatorOptions{})
			r := &lookout{sees: map[string]bool{}}
			r.boats.GroupVersionKind = boats
			r.boats.Map = func(b *anything) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: b.GetNamespace(), Name: b.GetName()}}
			}
			if env != home {
				r.boats.Cluster = rest.CopyConfig(env.Config)
			}
			op, err := framework.NewOperator(home.Config, framework.OperatorOptions{Logger: quiet, Scheme: scheme, Namespaces: []string{w.ns}, Grace: -1})
			must(t, err)
			must(t, framework.Register(op, r, pageOptions{Name: "lookout", Secondaries: framework.Secondaries(&r.boats)}))
			running, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- op.Run(running) }()
			t.Cleanup(func() { cancel(); must(t, <-done) })
			ready := func() string {
				if err := op.Ready(); err != nil {
					return err.Error()
				}
				return ""
			}
			w.await("it waits", func() string {
				if op.Ready() == nil {
					return "it is ready without the kind"
				}
				return ""
			})
			w.settle() // others do not wait for it
			for range 2 {
				must(t, w.there.Create(context.Background(), definitionOfBoats()))
				w.await("a boat", func() string {
					if err := w.there.Create(context.Background(), boat(w.ns, "p0")); err != nil && !apierrors.IsAlreadyExists(err) {
						return err.Error()
					}
					return ""
				})
				w.await("its page has it", r.says("p0", true))
				w.await("no other has", r.says("p1", false))
				w.await("all is well", ready)
				must(t, w.there.Delete(context.Background(), definitionOfBoats()))
				w.await("the kind is gone", func() string {
					if err := w.there.Get(context.Background(), client.ObjectKeyFromObject(definitionOfBoats()), definitionOfBoats()); !apierrors.IsNotFound(err) {
						return fmt.Sprint(err)
					}
					return ""
				})
				w.await("its page has it no more", r.says("p0", false))
			}
		})
	}
}
