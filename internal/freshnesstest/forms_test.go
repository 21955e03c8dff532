package freshnesstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

// craftsman is a controller that reads tools in three forms, and writes a field of those that are
// for its page in one of them.
type craftsman struct {
	name     string
	cast     cast
	witness  *witness
	gallery  *gallery
	typed    framework.Secondary[*tool]
	whole    framework.Secondary[*unstructured.Unstructured]
	metadata framework.Secondary[*metav1.PartialObjectMetadata]
	// write brings one tool in line, as it was read, if need be.
	write func(ctx context.Context, k *craftsman, c *pageContext, name, html string) error
}

func (w *world) craftsman(name string, write func(context.Context, *craftsman, *pageContext, string, string) error) *craftsman {
	k := &craftsman{name: name, cast: w.cast, witness: w.witness, gallery: w.gallery, write: write}
	k.typed.Map = func(o *tool) []types.NamespacedName { return pageOf(o) }
	k.whole.Map = func(o *unstructured.Unstructured) []types.NamespacedName { return pageOf(o) }
	k.metadata.Map = func(o *metav1.PartialObjectMetadata) []types.NamespacedName { return pageOf(o) }
	k.whole.GroupVersionKind, k.metadata.GroupVersionKind = toolGVK, toolGVK
	k.typed.Name, k.whole.Name, k.metadata.Name = "typed", "whole", "metadata"
	return k
}

// pageOf maps a tool to the page that its label names.
func pageOf(o metav1.Object) []types.NamespacedName {
	if page := o.GetLabels()[forLabel]; page != "" {
		return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: page}}
	}
	return nil
}

// secondaries are the tools in those forms.
func (k *craftsman) secondaries() []framework.SecondarySource {
	return framework.Secondaries(&k.typed, &k.whole, &k.metadata)
}

func (k *craftsman) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	view := map[object]sight{}
	if err := k.readAll(c, view); err != nil {
		return pageUpdate{}, err
	}
	k.witness.ran(visit{controller: k.name, primary: c.Key(), uid: p.UID, view: view})
	for _, name := range k.cast.tools {
		form := object{metadataTools, trc.Key{Namespace: p.Namespace, Name: name}}
		m, err := k.metadata.GetNamed(c, p.Namespace, name)
		if err != nil || m == nil || !slices.Contains(pageOf(m), c.Key()) {
			continue
		}
		dawdle(ctx)
		if err := k.write(ctx, k, c, name, p.Spec.HTML); err != nil {
			return pageUpdate{}, fmt.Errorf("%s: %w", form, err)
		}
	}
	return pageUpdate{}, nil
}

// readAll reads all tools in all forms. view, unless it is nil, is given what was seen.
func (k *craftsman) readAll(c *pageContext, view map[object]sight) error {
	if err := readTools(k, c, typedTools, &k.typed, view); err != nil {
		return err
	}
	if err := readTools(k, c, wholeTools, &k.whole, view); err != nil {
		return err
	}
	return readTools(k, c, metadataTools, &k.metadata, view)
}

func readTools[T framework.Object](k *craftsman, c *pageContext, form kind, s *framework.Secondary[T], view map[object]sight) error {
	at, ns := k.witness.mark(), c.Key().Namespace
	see := func(at mark, name string, o metav1.Object) {
		what := object{form, trc.Key{Namespace: ns, Name: name}}
		if o == nil {
			k.witness.saw(at, what, nil, nil)
			return
		}
		k.gallery.show(form, o)
		k.witness.saw(at, what, o, pageOf(o))
		if view != nil {
			view[what] = sight{o.GetUID(), versionOf(o)}
		}
	}
	listed, err := s.List(c)
	if err != nil {
		return err
	}
	for _, o := range listed {
		see(at, o.GetName(), o)
	}
	for _, name := range k.cast.tools {
		at := k.witness.mark()
		o, err := s.GetNamed(c, ns, name)
		if err != nil {
			return err
		}
		if any(o) == any(*new(T)) {
			see(at, name, nil)
		} else {
			see(at, name, o)
		}
	}
	return nil
}

// wrote takes in the answer to a write, and reads it back in every form.
func (k *craftsman) wrote(c *pageContext, form kind, o framework.Object, err error) error {
	if err != nil {
		return err
	}
	k.gallery.show(form, o)
	for _, f := range toolForms {
		k.witness.wrote(object{f, trc.KeyOf(o)}, o, pageOf(o))
	}
	return k.readAll(c, nil)
}

// writeTyped writes the size through the Go type, each tool in its own way.
func writeTyped(ctx context.Context, k *craftsman, c *pageContext, name, html string) error {
	ns := c.Key().Namespace
	o, err := k.typed.GetNamed(c, ns, name)
	if err != nil || o == nil || o.Spec.Size == html {
		return err
	}
	intent := &tool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: toolSpec{Size: html}}
	switch name[len(name)-1] % 4 {
	case 0:
		o, err = framework.MergePatch(ctx, c, o, fmt.Appendf(nil, `{"spec":{"size":%q}}`, html))
	case 1:
		o, err = framework.JSONPatch(ctx, c, o, fmt.Appendf(nil, `[{"op":"add","path":"/spec/size","value":%q}]`, html))
	case 2:
		o, err = framework.Apply(ctx, c, intent)
	default:
		o, err = framework.Apply(ctx, c, intent, framework.WithMode(framework.ByPatch))
	}
	return k.wrote(c, typedTools, o, err)
}

// writeWhole writes the finish, which the Go type lacks, through unstructured objects.
func writeWhole(ctx context.Context, k *craftsman, c *pageContext, name, html string) error {
	ns := c.Key().Namespace
	o, err := k.whole.GetNamed(c, ns, name)
	if err != nil || o == nil {
		return err
	}
	if finish, _, _ := unstructured.NestedString(o.Object, "spec", "finish"); finish == html {
		return nil
	}
	switch name[len(name)-1] % 3 {
	case 0:
		o, err = framework.MergePatch(ctx, c, o, fmt.Appendf(nil, `{"spec":{"finish":%q}}`, html))
	case 1:
		if err = unstructured.SetNestedField(o.Object, html, "spec", "finish"); err == nil {
			o, err = framework.Update(ctx, c, o)
		}
	default:
		o, err = framework.Apply(ctx, c, newTool(ns, name, map[string]any{"finish": html}))
	}
	return k.wrote(c, wholeTools, o, err)
}

func newTool(ns, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(toolGVK)
	o.SetNamespace(ns)
	o.SetName(name)
	return o
}

// changeTool changes what the Go type lacks, mostly.
func (f *foreigners) changeTool(ctx context.Context, random *rand.Rand, ns, name string) {
	o := newTool(ns, name, nil)
	set := func(value any, fields ...string) func() {
		return func() {
			if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
				panic(err)
			}
		}
	}
	some := fmt.Sprint(random.IntN(1000))
	change := set(some, "spec", "color")
	switch n := random.IntN(20); {
	case n < 1:
		f.delete(ctx, o)
		return
	case n < 4:
		change = set([]any{map[string]any{"name": "blade", "weight": random.Int64N(1000)}}, "spec", "parts")
	case n < 6:
		change = set(f.cast.pages[random.IntN(len(f.cast.pages))], "metadata", "labels", forLabel)
	case n < 7:
		change = set(some, "spec", "size")
	}
	if !f.change(ctx, o, change) {
		o = newTool(ns, name, map[string]any{"color": some})
		o.SetLabels(map[string]string{forLabel: f.cast.pages[random.IntN(len(f.cast.pages))]})
		f.create(ctx, o)
	}
}

// judgeTools: what is shown is whole, every form has seen what others did, and what is wanted is
// so.
func (v *verdict) judgeTools(g *gallery) {
	v.problems = append(v.problems, g.judge(v.history)...)
	for what, commits := range v.history.objects {
		now := commits[len(commits)-1]
		if what.kind != tools || now.deleted || len(now.primaries) == 0 {
			continue
		}
		page, ok := v.history.now(object{webPage, now.primaries[0]})
		if !ok || page.deleted || page.page.DeletionTimestamp != nil {
			continue
		}
		for field, want := range map[string]string{"size": page.page.Spec.HTML, "finish": page.page.Spec.HTML} {
			if got, _, _ := unstructured.NestedString(now.tool.Object, "spec", field); got != want {
				v.report("G12: the %s of %s is %q, not %q", field, what, got, want)
			}
		}
		for _, controller := range []string{"smith", "painter"} {
			v.judgeToolSeen(controller, what, now, page.uid)
		}
	}
}

// judgeToolSeen: the last foreign change of a tool was seen in every form by a run of its page.
func (v *verdict) judgeToolSeen(controller string, what object, now commit, page types.UID) {
	var last int64
	for _, c := range v.history.objects[what] {
		if c.uid == now.uid && v.foreign[c.revision] {
			last = c.revision
		}
	}
	for _, form := range toolForms {
		as := object{form, what.key}
		if !slices.ContainsFunc(v.said.visits, func(r visit) bool {
			return r.controller == controller && r.primary == now.primaries[0] && r.uid == page &&
				r.view[as].uid == now.uid && r.view[as].version >= last
		}) {
			v.report("G04: no run of %s of %s began with %s at %d or later:%s", controller, now.primaries[0], as, last,
				v.history.describe(what, last))
		}
	}
}
