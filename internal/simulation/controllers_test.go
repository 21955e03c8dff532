package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// keeper gives a page its finalizer, a ConfigMap of its own, another one if the page is exposed, a
// line in the shared one and a status that says what it saw.
type keeper struct{ *observer }

// Reconcile brings about what the page wants.
func (k *keeper) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	r, end := k.begin(ctx, p, c, false)
	defer end()
	if err := r.misbehave(0); err != nil {
		return pageUpdate{}, err
	}
	for _, step := range []func() error{
		func() error {
			return r.keep(p.Name+"-own", map[string]string{"html": p.Spec.HTML, "uid": string(p.UID)})
		},
		r.extra, r.shared, r.numbered,
		func() error { return r.misbehave(1) },
	} {
		if err := step(); err != nil {
			return pageUpdate{}, err
		}
	}
	r.succeeds()
	return r.again(r.status()), nil
}

// Cleanup takes away what the keeper has made, in its own time.
func (k *keeper) Cleanup(ctx context.Context, p *page, c *pageContext) (framework.DeleteControl, error) {
	r, end := k.begin(ctx, p, c, true)
	defer end()
	if err := r.misbehave(0); err != nil {
		return framework.DeleteControl{}, err
	}
	kept := append([]string{p.Name + "-own", p.Name + "-extra"}, k.world.plan.numbered(p.Name)...)
	for _, name := range kept {
		if m := r.found[name]; m != nil && r.world.plan.tidy {
			if err := r.delete(m); err != nil {
				return framework.DeleteControl{}, err
			}
		}
	}
	if err := r.misbehave(1); err != nil {
		return framework.DeleteControl{}, err
	}
	if r.mood%7 == 3 {
		return framework.KeepFinalizerFor(time.Duration(1 + r.mood%uint64(20*time.Second))), nil
	}
	r.succeeds()
	k.world.witness.cleanedUp(p.UID, k.world.truth.now(object{webPages, p.Name}).from)
	return framework.RemoveFinalizer(), nil
}

// keep makes a ConfigMap of the page's hold the data, in the way that the plan says.
func (r *run) keep(name string, data map[string]string) error {
	found := r.found[name]
	if found != nil { // a garbage collector would have done so
		if owner := metav1.GetControllerOf(found); owner != nil && owner.UID != r.p.UID {
			if err := r.delete(found); err != nil {
				return err
			}
			found = nil
		}
	}
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	switch way := r.world.plan.way; {
	case way == byApply:
		return r.wrote(framework.Apply(r.ctx, r.c, desired, framework.OwnedByPrimary()))
	case way == byPatch:
		return r.wrote(framework.Apply(r.ctx, r.c, desired, framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch)))
	case found == nil:
		return r.wrote(framework.Create(r.ctx, r.c, desired, framework.OwnedByPrimary()))
	case r.holds(found, data):
		return nil
	case way == byUpdate:
		changed := found.DeepCopy()
		changed.OwnerReferences = []metav1.OwnerReference{r.owner()}
		if changed.Data == nil {
			changed.Data = map[string]string{}
		}
		maps.Copy(changed.Data, data)
		return r.wrote(framework.Update(r.ctx, r.c, changed))
	}
	return r.patch(found, map[string]any{"data": data, "metadata": map[string]any{"ownerReferences": []any{r.owner()}}})
}

func (r *run) owner() metav1.OwnerReference {
	return *metav1.NewControllerRef(r.p, webpagev1.GroupVersion.WithKind("WebPage"))
}

func (r *run) holds(m *corev1.ConfigMap, data map[string]string) bool {
	for key, value := range data {
		if m.Data[key] != value {
			return false
		}
	}
	return metav1.IsControlledBy(m, r.p)
}

// patch changes a ConfigMap as it was read.
func (r *run) patch(m *corev1.ConfigMap, patch any, options ...framework.WriteOption) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return r.wrote(framework.MergePatch(r.ctx, r.c, m, text, options...))
}

// extra is there exactly if the page is exposed.
func (r *run) extra() error {
	name := r.page + "-extra"
	if r.p.Spec.Exposed {
		return r.keep(name, map[string]string{"html": r.p.Spec.HTML, "uid": string(r.p.UID)})
	}
	if found := r.found[name]; found != nil {
		return r.delete(found)
	}
	return nil
}

// numbered are more than a run is told of causes, where the plan says so.
func (r *run) numbered() error {
	names := r.world.plan.numbered(r.page)
	if len(names) == 0 {
		return nil
	}
	errs := make([]error, len(names))
	var writing sync.WaitGroup
	for i, name := range names {
		keep := func() {
			errs[i] = r.keep(name, map[string]string{"html": r.p.Spec.HTML, "uid": string(r.p.UID)})
		}
		if r.world.plan.atOnce {
			writing.Go(keep)
		} else if keep(); errs[i] != nil {
			break
		}
	}
	writing.Wait()
	r.list()
	return errors.Join(errs...)
}

// shared writes the page's line into what is shared, if that is for the page.
func (r *run) shared() error {
	found := r.found[sharedName]
	if found == nil || !strings.Contains(found.Labels[forLabel], r.page) || found.Data[r.page] == r.p.Spec.HTML {
		return nil
	}
	line := map[string]any{"data": map[string]string{r.page: r.p.Spec.HTML}}
	return r.patch(found, line, framework.FieldManager(r.observer.name+"."+r.page))
}

// status says what the run saw.
func (r *run) status() pageUpdate {
	var theirs map[string]string
	if found := r.found[sharedName]; found != nil && strings.Contains(found.Labels[forLabel], r.page) {
		theirs = found.Data
	}
	url := statusOf(r.p.UID, r.p.Spec.HTML, theirs)
	if r.world.plan.applies {
		fresh := &page{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.page}}
		fresh.Status.URL = url
		return framework.PatchStatus(fresh)
	}
	r.p.Status.URL = url
	return framework.PatchStatus(r.p)
}

// auditor notes what the keeper has made for the page. It is no Cleaner.
type auditor struct{ *observer }

// Reconcile copies what is kept of the page.
func (a *auditor) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	r, end := a.begin(ctx, p, c, false)
	defer end()
	if err := r.misbehave(0); err != nil {
		return pageUpdate{}, err
	}
	kept := dataOf(r.found[p.Name+"-own"])["html"]
	if err := r.keep(p.Name+"-audit", map[string]string{"html": kept, "uid": string(p.UID)}); err != nil {
		return pageUpdate{}, err
	}
	if err := r.misbehave(1); err != nil {
		return pageUpdate{}, err
	}
	r.succeeds()
	return r.again(pageUpdate{}), nil
}
