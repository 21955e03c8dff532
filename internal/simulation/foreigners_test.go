package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// act is something that others do to a page, and what that makes due in a calm world: by expect. It
// does nothing where there is nothing to do it to.
type act struct {
	name string
	do   func(w *world, page string)
}

// acts are what others do. Their names are for people.
var acts = []act{
	{"a page comes", (*world).createPage},
	{"a page comes", (*world).createPage},
	{"a page changes", (*world).changePage},
	{"a page changes", (*world).changePage},
	{"a page is exposed, or not any more", (*world).exposePage},
	{"a page is annotated", func(w *world, page string) { w.patchPage(page, map[string]any{"annotations": w.some("note")}) }},
	{"a page's status is changed", (*world).changeStatus},
	{"a finalizer comes or goes", (*world).toggleFinalizer},
	{"a page goes", (*world).deletePage},
	{"what a page has is changed", func(w *world, page string) { w.changeMap(page, map[string]any{"data": w.some("html")}, 0) }},
	{"what a page has is labelled", func(w *world, page string) {
		w.changeMap(page, map[string]any{"metadata": map[string]any{"labels": w.some("color")}}, 0)
	}},
	{"what a page has is let go", func(w *world, page string) {
		w.changeMap(page, map[string]any{"metadata": map[string]any{"ownerReferences": nil}}, 1)
	}},
	{"what a page has goes", (*world).deleteMap},
	{"what is shared comes or changes", (*world).changeShared},
	{"what is shared is for others", (*world).relabelShared},
	{"what is shared goes", (*world).deleteShared},
}

// unforeseen are what others do as well where runs are not counted.
var unforeseen = []act{
	{"what a page is to have is there already", func(w *world, page string) {
		w.create(w.maps, configMap(page+[]string{"-own", "-audit"}[w.rand.IntN(2)], nil, w.some("html")))
	}},
	{"a page is replaced", func(w *world, page string) { w.deletePage(page); w.createPage(page) }},
	{"what a page has is replaced", func(w *world, page string) {
		w.deleteMap(page)
		w.create(w.maps, configMap(page+"-own", nil, w.some("html")))
	}},
	{"what is noted of a page is changed or goes", func(w *world, page string) {
		if what := (object{configMaps, page + "-audit"}); w.rand.IntN(2) == 0 && w.truth.now(what).object != nil {
			w.patch(w.maps, what, map[string]any{"data": w.some("html")})
			return
		}
		w.delete(w.maps, page+"-audit")
	}},
}

// toMany are what others do as well where there are numbered ConfigMaps.
var toMany = []act{
	{"one of many is changed", func(w *world, page string) { w.changeNumbered(page, 1) }},
	{"many are changed", func(w *world, page string) { w.changeNumbered(page, w.plan.many) }},
	{"one of many goes", func(w *world, page string) {
		if what := w.someNumbered(page); w.truth.now(what).object != nil {
			w.expect(page, 1, 0)
			w.delete(w.maps, what.name)
		}
	}},
}

// firstOfMany are what others do first where there are numbered ConfigMaps.
var firstOfMany = []act{
	{"a page comes", (*world).createPage},
	{"a page changes", (*world).changePage},
	toMany[1],
}

func (w *world) someNumbered(page string) object {
	names := w.plan.numbered(page)
	return object{configMaps, names[w.rand.IntN(len(names))]}
}

// changeNumbered changes n of the numbered ConfigMaps of a page at the same moment. A run begins
// with the first of them, and another may have to follow for those that it did not see.
func (w *world) changeNumbered(page string, n int) {
	if w.truth.now(object{configMaps, w.plan.numbered(page)[0]}).object == nil {
		return
	}
	w.expect(page, 1, min(n-1, 1))
	for range n {
		if what := w.someNumbered(page); w.truth.now(what).object != nil {
			w.patch(w.maps, what, map[string]any{"data": w.some("html")})
		}
	}
}

// expect adds to the runs that a page has to have in a calm world, if it is there.
func (w *world) expect(page string, exactly, more int) {
	if w.lives(page) {
		w.expected[page] += exactly
		w.atMost[page] += exactly + more
	}
}

func (w *world) lives(page string) bool {
	o := w.truth.now(object{webPages, page}).object
	return o != nil && o.GetDeletionTimestamp() == nil
}

// sharers are the pages that the shared ConfigMap is for.
func (w *world) sharers() []string {
	if shared := w.truth.now(object{configMaps, sharedName}).object; shared != nil {
		return pagesOf(shared)
	}
	return nil
}

// some is a map that was never there before.
func (w *world) some(key string) map[string]any {
	return map[string]any{key: fmt.Sprintf("%s-%d", key, w.rand.Uint32())}
}

// someSpec is that of a page, with a color that its Go type lacks.
func (w *world) someSpec() map[string]any {
	spec := w.some("html")
	spec["color"] = spec["html"]
	return spec
}

func configMap(name string, labels map[string]any, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": labels},
	}}
}

func (w *world) create(in dynamic.ResourceInterface, o *unstructured.Unstructured) {
	if _, err := in.Create(w.Context(), o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Errorf("create %s: %v", o.GetName(), err)
	}
}

func (w *world) patch(in dynamic.ResourceInterface, what object, patch any, subresource ...string) {
	text, err := json.Marshal(patch)
	noError(w.T, err)
	_, err = in.Patch(w.Context(), what.name, types.MergePatchType, text, metav1.PatchOptions{}, subresource...)
	if err != nil && !apierrors.IsNotFound(err) {
		w.Errorf("patch %s: %v", what, err)
	}
}

func (w *world) delete(in dynamic.ResourceInterface, name string) {
	if err := in.Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.Errorf("delete %s: %v", name, err)
	}
}

func (w *world) createPage(page string) {
	if w.truth.now(object{webPages, page}).object != nil {
		return
	}
	w.create(w.pages, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": webpagev1.GroupVersion.String(), "kind": "WebPage", "spec": w.someSpec(),
		"metadata": map[string]any{"namespace": namespace, "name": page},
	}})
	w.expect(page, 1, 0)
	w.expectLine(page)
}

// expectLine: the page will write its line into what is shared, and others will see that.
func (w *world) expectLine(page string) {
	if sharers := w.sharers(); slices.Contains(sharers, page) && w.lives(page) {
		for _, other := range sharers {
			if other != page {
				w.expect(other, 1, 0)
			}
		}
	}
}

func (w *world) changePage(page string) {
	if w.truth.now(object{webPages, page}).object == nil {
		return
	}
	w.expect(page, 1, 0)
	w.expectLine(page)
	w.patch(w.pages, object{webPages, page}, map[string]any{"spec": w.someSpec()})
}

func (w *world) exposePage(page string) {
	now := w.truth.now(object{webPages, page}).object
	if now == nil {
		return
	}
	exposed, _, _ := unstructured.NestedBool(now.Object, "spec", "exposed")
	own := 0
	if exposed {
		own = 1 // an own deletion
	}
	w.expect(page, 1, own)
	w.patch(w.pages, object{webPages, page}, map[string]any{"spec": map[string]any{"exposed": !exposed}})
}

func (w *world) patchPage(page string, metadata map[string]any) {
	w.patch(w.pages, object{webPages, page}, map[string]any{"metadata": metadata})
}

func (w *world) changeStatus(page string) {
	w.patch(w.pages, object{webPages, page}, map[string]any{"status": map[string]any{"observedGeneration": w.rand.IntN(1000)}}, "status")
}

func (w *world) toggleFinalizer(page string) {
	now := w.truth.now(object{webPages, page}).object
	if now == nil {
		return
	}
	has := slices.Contains(now.GetFinalizers(), foreignFinalizer)
	if has || now.GetDeletionTimestamp() == nil {
		w.patchForeignFinalizer(page, !has)
	}
}

// patchForeignFinalizer leaves those of others alone: it holds for the version that is there alone,
// and is made anew otherwise.
func (w *world) patchForeignFinalizer(page string, on bool) {
	for {
		now := w.truth.now(object{webPages, page}).object
		if now == nil {
			return
		}
		next := slices.DeleteFunc(slices.Clone(now.GetFinalizers()), func(f string) bool { return f == foreignFinalizer })
		if on {
			next = append(next, foreignFinalizer)
		}
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": now.GetResourceVersion(), "uid": now.GetUID(), "finalizers": next,
		}})
		noError(w.T, err)
		_, err = w.pages.Patch(w.Context(), page, types.MergePatchType, text, metav1.PatchOptions{})
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsInvalid(err): // it goes already, and takes none on
			return
		case !apierrors.IsConflict(err):
			w.Errorf("finalizers of %s: %v", page, err)
			return
		}
	}
}

func (w *world) deletePage(page string) {
	w.expect(page, 1, 0)
	w.delete(w.pages, page)
}

// changeMap changes what a page has for itself.
func (w *world) changeMap(page string, patch any, more int) {
	what := object{configMaps, page + "-own"}
	if w.truth.now(what).object == nil {
		return
	}
	w.expect(page, 1, more)
	w.patch(w.maps, what, patch)
}

func (w *world) deleteMap(page string) {
	if what := (object{configMaps, page + "-own"}); w.truth.now(what).object != nil {
		w.expect(page, 1, 0)
		w.delete(w.maps, what.name)
	}
}

// some of the pages, as the label says it.
func (w *world) someSharers() string {
	var names []string
	for i := range w.plan.pages {
		if w.rand.IntN(3) > 0 {
			names = append(names, pageName(i))
		}
	}
	return strings.Join(names, ".")
}

func (w *world) changeShared(string) {
	what := object{configMaps, sharedName}
	if w.truth.now(what).object != nil {
		for _, page := range w.sharers() {
			w.expect(page, 1, 0)
		}
		w.patch(w.maps, what, map[string]any{"data": w.some("theirs")})
		return
	}
	w.create(w.maps, configMap(sharedName, map[string]any{forLabel: w.someSharers()}, w.some("theirs")))
	w.expectLines(nil, w.sharers())
}

// expectLines: those who come to share write their lines, in which they may be in each other's way.
func (w *world) expectLines(before, after []string) {
	lines := 0
	for _, page := range after {
		if !slices.Contains(before, page) && w.lives(page) {
			lines++
		}
	}
	all := slices.Concat(before, after)
	slices.Sort(all)
	for _, page := range slices.Compact(all) {
		w.expect(page, 1, 3*lines)
	}
}

func (w *world) relabelShared(string) {
	what := object{configMaps, sharedName}
	before := w.sharers()
	next := w.someSharers()
	if now := w.truth.now(what).object; now == nil || now.GetLabels()[forLabel] == next {
		return
	}
	w.patch(w.maps, what, map[string]any{"metadata": map[string]any{"labels": map[string]any{forLabel: next}}})
	w.expectLines(before, w.sharers())
}

func (w *world) deleteShared(string) {
	for _, page := range w.sharers() {
		w.expect(page, 1, 0)
	}
	w.delete(w.maps, sharedName)
}
