package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// TestWritesOfAPlanAreAnsweredAsWritesAre sends the same random writes to two equal servers: to one
// directly, and to the other one through a plan. All answers and reads must be the same, whatever
// was written before, and the second server must not change.
func TestWritesOfAPlanAreAnsweredAsWritesAre(t *testing.T) {
	sequences, first := depth.Of(10, 100, 5000), rand.Uint64N(1_000_000)
	for seed := first; seed < first+uint64(sequences); seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, seed)
				p.namespaces = [2]string{"default", "default"}
				for i := range p.configs {
					model, err := newModel()
					noError(t, err)
					p.configs[i], p.committed = model.Config(), func() int { return len(model.History()) }
				}
				p.live()
			})
		}) {
			return
		}
	}
}

// pair is two servers, or two namespaces of one, that get the same writes.
type pair struct {
	*testing.T
	*rand.Rand
	configs    [2]*rest.Config
	namespaces [2]string
	committed  func() int // how often the second one was changed
	clients    [2]dynamic.Interface
}

func newPair(t *testing.T, seed uint64) *pair {
	return &pair{T: t, Rand: rand.New(rand.NewPCG(seed, 1))}
}

var pairKinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

func (p *pair) live() {
	var direct [2]dynamic.Interface
	for i, config := range p.configs {
		var err error
		direct[i], err = dynamic.NewForConfig(config)
		noError(p, err)
		config = rest.CopyConfig(config)
		if i == 1 {
			config.Wrap(plan.NewTransport())
		}
		p.clients[i], err = dynamic.NewForConfig(config)
		noError(p, err)
	}
	planned := p.clients
	p.clients = direct
	for range p.IntN(6) {
		p.step() // what is stored before
	}
	p.clients = planned
	before := p.committed()
	for range 12 {
		p.step()
	}
	if n := p.committed(); n != before {
		p.Errorf("%d commits through a plan", n-before)
	}
}

// step makes one random write on both servers, and compares the answers and a read.
func (p *pair) step() {
	kind := pairKinds[p.IntN(len(pairKinds))]
	name := fmt.Sprint("o", p.IntN(2))
	what, send := p.request(kind, name)
	var answers [2]string
	for i, c := range p.clients {
		on := c.Resource(kind).Namespace(p.namespaces[i])
		now, err := on.Get(p.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			p.Fatal(err)
		}
		answered, err := send(on, now)
		answers[i] = outcome(answered, err)
		now, err = on.Get(p.Context(), name, metav1.GetOptions{})
		answers[i] = strings.ReplaceAll(answers[i]+"\nthen "+outcome(now, err), `"`+p.namespaces[i]+`"`, `"ns"`)
	}
	if answers[0] != answers[1] {
		p.Fatalf("%s %s %s:\ndirect:  %s\nplanned: %s", what, kind.Resource, name, answers[0], answers[1])
	}
	p.Logf("%s %s %s: %.150s", what, kind.Resource, name, answers[0])
}

func outcome(o *unstructured.Unstructured, err error) string {
	if err != nil {
		return fmt.Sprint("error ", apierrors.ReasonForError(err))
	}
	if o == nil {
		return "nothing"
	}
	text := plan.Canonical(o.Object)
	if o.GetDeletionTimestamp() != nil {
		text += " in deletion"
	}
	return text
}

type sending func(on dynamic.ResourceInterface, now *unstructured.Unstructured) (*unstructured.Unstructured, error)

// request returns a random write. now is the object as the server, or the plan, has it; nil if
// there is none.
func (p *pair) request(kind schema.GroupVersionResource, name string) (what string, send sending) {
	value, manager := fmt.Sprint("v", p.IntN(3)), fmt.Sprint("m", p.IntN(2))
	guarded, key := p.IntN(2) == 0, []string{"a", "b"}[p.IntN(2)]
	o := p.content(kind, name, key, value)
	finalizers := []any{}
	if p.IntN(3) == 0 {
		finalizers = append(finalizers, "example.com/f")
	}
	switch p.IntN(8) {
	case 0:
		_ = unstructured.SetNestedSlice(o.Object, finalizers, "metadata", "finalizers")
		return "create", func(on dynamic.ResourceInterface, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return on.Create(p.Context(), o, metav1.CreateOptions{FieldManager: manager})
		}
	case 1:
		return "update", func(on dynamic.ResourceInterface, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			if now == nil {
				return nil, nil
			}
			next := now.DeepCopy()
			for field, value := range o.Object {
				if !slices.Contains([]string{"metadata", "apiVersion", "kind"}, field) {
					next.Object[field] = value
				}
			}
			return on.Update(p.Context(), next, metav1.UpdateOptions{FieldManager: manager})
		}
	case 2:
		return "delete", func(on dynamic.ResourceInterface, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			options := metav1.DeleteOptions{}
			if guarded && now != nil {
				uid, version := now.GetUID(), now.GetResourceVersion()
				options.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
			}
			return nil, on.Delete(p.Context(), name, options)
		}
	case 3:
		return "finalizers", p.patching(types.MergePatchType, guarded, name, manager, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	case 4:
		return "status", p.patching(types.MergePatchType, guarded, name, manager, p.status(kind, value), "status")
	case 5, 6:
		return "merge", p.patching(types.MergePatchType, guarded, name, manager, p.patch(kind, key, value))
	}
	return "apply", func(on dynamic.ResourceInterface, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		applied := o.DeepCopy()
		if guarded && now != nil {
			applied.SetResourceVersion(now.GetResourceVersion())
			applied.SetUID(now.GetUID())
		}
		// One manager only: see doc.go about those of several.
		return on.Apply(p.Context(), name, applied, metav1.ApplyOptions{FieldManager: "applier", Force: true})
	}
}

func (p *pair) patching(how types.PatchType, guarded bool, name, manager string, patch map[string]any, subresources ...string) sending {
	return func(on dynamic.ResourceInterface, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		sent := map[string]any{"metadata": map[string]any{}}
		for field, value := range patch {
			sent[field] = value
		}
		if guarded && now != nil {
			metadata := map[string]any{"uid": string(now.GetUID()), "resourceVersion": now.GetResourceVersion()}
			for field, value := range sent["metadata"].(map[string]any) {
				metadata[field] = value
			}
			sent["metadata"] = metadata
		}
		body, err := utiljson.Marshal(sent)
		noError(p, err)
		return on.Patch(p.Context(), name, how, body, metav1.PatchOptions{FieldManager: manager}, subresources...)
	}
}

// content returns an object of a kind.
func (p *pair) content(kind schema.GroupVersionResource, name, key, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: p.patch(kind, key, value)}
	o.SetName(name)
	switch kind.Resource {
	case "configmaps":
		o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	case "secrets":
		o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	case "webpages":
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: "v1", Kind: "WebPage"})
	case "deployments":
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
		labels := map[string]any{"app": name}
		spec := o.Object["spec"].(map[string]any)
		spec["selector"] = map[string]any{"matchLabels": labels}
		spec["template"] = map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image:" + value}}},
		}
	}
	return o
}

// patch returns the fields of a kind that tests change.
func (p *pair) patch(kind schema.GroupVersionResource, key, value string) map[string]any {
	switch kind.Resource {
	case "configmaps":
		return map[string]any{"data": map[string]any{key: value}}
	case "secrets":
		return map[string]any{"stringData": map[string]any{key: value}}
	case "webpages":
		return map[string]any{"spec": map[string]any{"html": value, "exposed": key == "a"}}
	}
	return map[string]any{"spec": map[string]any{"replicas": int64(len(key) + int(value[1]))}}
}

func (p *pair) status(kind schema.GroupVersionResource, value string) map[string]any {
	if kind.Resource == "webpages" {
		return map[string]any{"status": map[string]any{"url": value}}
	}
	return map[string]any{"status": map[string]any{"replicas": int64(value[1])}}
}
