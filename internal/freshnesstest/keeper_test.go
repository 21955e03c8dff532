package freshnesstest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	// forLabel names the pages that a shared ConfigMap is for, separated by dots.
	forLabel = "for"
	// watchedLabel is what the selector of some scenarios asks for.
	watchedLabel = "watched"
	// byName ends a line that was applied, and so is about whatever object has the name.
	byName = "@any"
)

// cast is the names of a namespace that anybody may touch.
type cast struct{ pages, shared, tools []string }

func newCast(pages, shared int) cast {
	var c cast
	for i := range pages {
		c.pages = append(c.pages, fmt.Sprintf("p%d", i))
	}
	for i := range shared {
		c.shared = append(c.shared, fmt.Sprintf("s%d", i))
	}
	return c
}

// maps returns the names of all ConfigMaps that may exist.
func (c cast) maps() []string {
	all := slices.Clone(c.shared)
	for _, p := range c.pages {
		all = append(all, p+"-own", p+"-extra", p+"-audit")
	}
	return all
}

// primariesOf maps a ConfigMap to pages: those that own it, and those that its label names.
func primariesOf(m *corev1.ConfigMap) []types.NamespacedName {
	var keys []types.NamespacedName
	add := func(name string) {
		key := types.NamespacedName{Namespace: m.Namespace, Name: name}
		if name != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, owner := range m.OwnerReferences {
		if owner.Kind == "WebPage" {
			add(owner.Name)
		}
	}
	for _, name := range strings.Split(m.Labels[forLabel], ".") {
		add(name)
	}
	return keys
}

func isFor(m *corev1.ConfigMap, page string) bool {
	return slices.Contains(strings.Split(m.Labels[forLabel], "."), page)
}

// statusOf is what the keeper makes of a page and the shared ConfigMaps that are for it.
func statusOf(p *page, all []*corev1.ConfigMap) string {
	var parts []string
	for _, m := range all {
		if isFor(m, p.Name) {
			parts = append(parts, m.Name+"="+m.Data["theirs"])
		}
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s %s %s", p.UID, p.Spec.HTML, strings.Join(parts, ","))
}

// observer reads on behalf of a controller, and tells the witness of everything.
type observer struct {
	name    string
	cast    cast
	witness *witness
	maps    framework.Secondary[*corev1.ConfigMap]
}

// begin reads all there is at the start of a run.
func (r *observer) begin(p *page, c *pageContext) ([]*corev1.ConfigMap, error) {
	view := map[object]sight{}
	self := object{webPage, c.Key()}
	// The primary was read before this run could know of it: only runs of this controller, which is
	// one at a time, had ended before that for sure.
	r.witness.saw(r.witness.mark(), object{kind(r.name) + "'s " + webPage, c.Key()}, p, nil)
	view[self] = sight{p.UID, versionOf(p)}
	mapped, err := r.list(c)
	if err != nil {
		return nil, err
	}
	for _, name := range r.cast.maps() {
		m, err := r.get(c, name)
		if err != nil {
			return nil, err
		}
		if m != nil {
			view[object{configMap, trc.KeyOf(m)}] = sight{m.UID, versionOf(m)}
		}
	}
	r.witness.ran(visit{controller: r.name, primary: c.Key(), uid: p.UID, view: view})
	return mapped, nil
}

func (r *observer) list(c *pageContext) ([]*corev1.ConfigMap, error) {
	at := r.witness.mark()
	mapped, err := r.maps.List(c)
	if err != nil {
		return nil, err
	}
	names := map[trc.Key]bool{}
	for _, m := range mapped {
		names[trc.KeyOf(m)] = true
		if !slices.Contains(primariesOf(m), c.Key()) {
			r.witness.fault("G01: the list of %s has %s, which is for %v", c.Key(), m.Name, primariesOf(m))
		}
		r.witness.saw(at, object{configMap, trc.KeyOf(m)}, m, primariesOf(m))
	}
	r.witness.listed(at, c.Key(), names)
	return mapped, nil
}

func (r *observer) get(c *pageContext, name string) (*corev1.ConfigMap, error) {
	what := object{configMap, trc.Key{Namespace: c.Key().Namespace, Name: name}}
	at := r.witness.mark()
	m, err := r.maps.GetNamed(c, what.key.Namespace, name)
	if err != nil {
		return nil, err
	}
	if m == nil {
		r.witness.saw(at, what, nil, nil)
		return nil, nil
	}
	r.witness.saw(at, what, m, primariesOf(m))
	return m, nil
}

// wrote takes in the answer to a write, and reads it back in both ways.
func (r *observer) wrote(c *pageContext, m *corev1.ConfigMap, err error) error {
	if err != nil {
		return err
	}
	r.witness.wrote(object{configMap, trc.KeyOf(m)}, m, primariesOf(m))
	if _, err := r.get(c, m.Name); err != nil {
		return err
	}
	_, err = r.list(c)
	return err
}

func (r *observer) delete(ctx context.Context, c *pageContext, m *corev1.ConfigMap) error {
	r.witness.deletes(m.UID)
	if err := framework.Delete(ctx, c, m); err != nil {
		return err
	}
	r.witness.deleted(m.UID)
	_, err := r.get(c, m.Name)
	return err
}

// keeper writes in every way: what it owns is applied, created, patched and deleted, what it shares
// with others is patched and updated, and its status says what it saw.
type keeper struct {
	observer
	// breaker, unless it is nil, is told of children that are about to be created.
	breaker *breaker
}

func (k *keeper) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	mapped, err := k.begin(p, c)
	if err != nil {
		return pageUpdate{}, err
	}
	for _, step := range []func(context.Context, *page, *pageContext, []*corev1.ConfigMap) error{k.own, k.child, k.extra, k.shared} {
		dawdle(ctx)
		if err := step(ctx, p, c, mapped); err != nil {
			return pageUpdate{}, err
		}
	}
	dawdle(ctx)
	p.Status.URL = statusOf(p, mapped)
	return framework.PatchStatus(p), nil
}

// dawdle gives others the time to come in between, now and then.
func dawdle(ctx context.Context) {
	if rand.IntN(3) == 0 {
		after(ctx, rand.N(25*time.Millisecond))
	}
}

// own applies the page's own ConfigMap, in two writes if there is something to change.
func (k *keeper) own(ctx context.Context, p *page, c *pageContext, mapped []*corev1.ConfigMap) error {
	var states []string
	if i := slices.IndexFunc(mapped, named(p.Name+"-own")); i < 0 || mapped[i].Data["html"] != p.Spec.HTML {
		states = append(states, "pending")
	}
	for _, html := range append(states, p.Spec.HTML) {
		m, err := framework.Apply(ctx, c, newMap(p.Namespace, p.Name+"-own", map[string]string{"html": html}), framework.OwnedByPrimary())
		if err := k.wrote(c, m, err); err != nil {
			return err
		}
	}
	return nil
}

// childMark is in the names of children, before what was generated.
const childMark = "-child-"

// child creates a ConfigMap with a generated name, unless the page has one: what is created twice
// stays.
func (k *keeper) child(ctx context.Context, p *page, c *pageContext, mapped []*corev1.ConfigMap) error {
	if k.breaker == nil || slices.ContainsFunc(mapped, func(m *corev1.ConfigMap) bool {
		return strings.Contains(m.Name, childMark) && metav1.IsControlledBy(m, p)
	}) {
		return nil
	}
	k.breaker.childComes(ctx, p.Namespace)
	child := newMap(p.Namespace, "", nil)
	child.GenerateName = p.Name + childMark
	m, err := framework.Create(ctx, c, child, framework.OwnedByPrimary())
	return k.wrote(c, m, err)
}

// extra creates, patches and deletes a ConfigMap that exists as long as the page is exposed.
func (k *keeper) extra(ctx context.Context, p *page, c *pageContext, _ []*corev1.ConfigMap) error {
	m, err := k.get(c, p.Name+"-extra")
	switch {
	case err != nil:
		return err
	case m == nil && p.Spec.Exposed:
		m, err = framework.Create(ctx, c, newMap(p.Namespace, p.Name+"-extra", map[string]string{"html": p.Spec.HTML}), framework.OwnedByPrimary())
		return k.wrote(c, m, err)
	case m != nil && !p.Spec.Exposed:
		return k.delete(ctx, c, m)
	case m != nil && m.Data["html"] != p.Spec.HTML:
		m, err = framework.MergePatch(ctx, c, m, patchOf(p.Spec.HTML, "html", m.UID))
		return k.wrote(c, m, err)
	}
	return nil
}

// shared writes a line into every shared ConfigMap that is for the page, each in its own way.
func (k *keeper) shared(ctx context.Context, p *page, c *pageContext, mapped []*corev1.ConfigMap) error {
	for _, m := range mapped {
		way := m.Name[len(m.Name)-1] % 4
		line := p.Spec.HTML + "@" + string(m.UID)
		if way == 3 {
			line = p.Spec.HTML + byName
		}
		if !isFor(m, p.Name) || m.Data[p.Name] == line {
			continue
		}
		var err error
		switch way {
		case 0:
			m, err = framework.MergePatch(ctx, c, m, patchOf(p.Spec.HTML, p.Name, m.UID))
		case 1:
			operations, _ := json.Marshal([]map[string]any{{"op": "add", "path": "/data/" + p.Name, "value": line}})
			m, err = framework.JSONPatch(ctx, c, m, operations)
		case 2:
			m.Data[p.Name] = line
			m, err = framework.Update(ctx, c, m)
		case 3:
			intent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}, Data: map[string]string{p.Name: line}}
			m, err = framework.Apply(ctx, c, intent, framework.FieldManager("keeper-of-"+p.Name))
		}
		if err := k.wrote(c, m, err); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) Cleanup(ctx context.Context, p *page, c *pageContext) (framework.DeleteControl, error) {
	mapped, err := k.begin(p, c)
	if err != nil {
		return framework.DeleteControl{}, err
	}
	for _, m := range mapped {
		if !metav1.IsControlledBy(m, p) {
			continue
		}
		if err := k.delete(ctx, c, m); err != nil {
			return framework.DeleteControl{}, err
		}
	}
	return framework.RemoveFinalizer(), nil
}

// auditor is a second controller of the same pages, for which the keeper is a stranger.
type auditor struct{ observer }

func (a *auditor) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	mapped, err := a.begin(p, c)
	if err != nil {
		return pageUpdate{}, err
	}
	data := map[string]string{"status": p.Status.URL}
	if i := slices.IndexFunc(mapped, named(p.Name+"-own")); i >= 0 {
		data["html"] = mapped[i].Data["html"]
	}
	m, err := framework.Apply(ctx, c, newMap(p.Namespace, p.Name+"-audit", data), framework.OwnedByPrimary())
	return pageUpdate{}, a.wrote(c, m, err)
}

func named(name string) func(*corev1.ConfigMap) bool {
	return func(m *corev1.ConfigMap) bool { return m.Name == name }
}

func newMap(ns, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{watchedLabel: "yes"}}, Data: data,
	}
}

// patchOf writes html under a key, and for another key than "html" whom it was computed from.
func patchOf(html, key string, uid types.UID) []byte {
	if key != "html" {
		html += "@" + string(uid)
	}
	patch, _ := json.Marshal(map[string]any{"data": map[string]any{key: html}})
	return patch
}
