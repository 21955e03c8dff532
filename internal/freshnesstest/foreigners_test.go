package freshnesstest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const foreignFinalizer = "example.com/foreign"

// foreigners are other clients, which change whatever there is, and know what they did.
type foreigners struct {
	namespaces []string
	cast       cast
	flips      bool // moves objects out of the selector and back
	seed       uint64

	mu      sync.Mutex // guards everything below
	count   int
	commits map[int64]bool
	deleted map[types.UID]bool
	faults  []string
}

func newForeigners(namespaces []string, c cast, flips bool, seed uint64) *foreigners {
	return &foreigners{namespaces: namespaces, cast: c, flips: flips, seed: seed, commits: map[int64]bool{}, deleted: map[types.UID]bool{}}
}

// did is what they did.
func (f *foreigners) did() (commits map[int64]bool, deleted map[types.UID]bool, faults []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.commits), maps.Clone(f.deleted), append([]string(nil), f.faults...)
}

// mark makes a change that is none otherwise: every answer is a new version then.
func (f *foreigners) mark(o client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["foreign"] = fmt.Sprint(f.count)
	o.SetAnnotations(annotations)
}

func (f *foreigners) note(o client.Object, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.commits[versionOf(o)] = true
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
		f.faults = append(f.faults, fmt.Sprintf("a foreign client failed on %s: %v", o.GetName(), err))
	}
	return err == nil
}

func (f *foreigners) create(ctx context.Context, o client.Object) bool {
	f.mark(o)
	return f.note(o, admin.Create(ctx, o))
}

// change reads and writes until no other write came in between.
func (f *foreigners) change(ctx context.Context, o client.Object, change func()) bool {
	for {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			if !apierrors.IsNotFound(err) {
				f.note(o, err)
			}
			return false
		}
		change()
		f.mark(o)
		if err := admin.Update(ctx, o); !apierrors.IsConflict(err) {
			return f.note(o, err)
		}
	}
}

func (f *foreigners) delete(ctx context.Context, o client.Object) {
	if admin.Get(ctx, client.ObjectKeyFromObject(o), o) != nil {
		return
	}
	uid := o.GetUID()
	err := admin.Delete(ctx, o, client.Preconditions{UID: &uid})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.deleted[uid] = true
	}
}

// race lets some clients change things at random moments for a while.
func (f *foreigners) race(ctx context.Context, clients int, while, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	end := time.Now().Add(while)
	var racing sync.WaitGroup
	for i := range clients {
		f.seed++
		random := rand.New(rand.NewPCG(f.seed, uint64(i)))
		racing.Go(func() {
			for time.Now().Before(end) {
				f.act(ctx, random)
				// The pace of the load; nothing waits for it.
				after(ctx, time.Duration(random.Int64N(int64(pause))))
			}
		})
	}
	racing.Wait()
	f.letGo(ctx)
}

// letGo takes the foreign finalizers off, so that what is deleted goes, and creates an object that
// maps to nothing: the watches of both kinds tell of it when they have told of everything before.
func (f *foreigners) letGo(ctx context.Context) {
	for _, ns := range f.namespaces {
		for _, name := range f.cast.pages {
			p := newPage(ns, name)
			// A change of every page would make the run that another change was owed.
			if admin.Get(ctx, client.ObjectKeyFromObject(p), p) == nil && slices.Contains(p.Finalizers, foreignFinalizer) {
				f.change(ctx, p, func() { p.Finalizers = without(p.Finalizers, foreignFinalizer) })
			}
		}
		f.poke(ctx, newMap(ns, "poke", nil))
	}
}

func (f *foreigners) poke(ctx context.Context, o client.Object) {
	if !f.create(ctx, o) {
		f.change(ctx, o, func() {})
	}
}

func (f *foreigners) act(ctx context.Context, random *rand.Rand) {
	ns := f.namespaces[random.IntN(len(f.namespaces))]
	page := f.cast.pages[random.IntN(len(f.cast.pages))]
	shared := f.cast.shared[random.IntN(len(f.cast.shared))]
	if n := len(f.cast.tools); n > 0 && random.IntN(2) == 0 {
		f.changeTool(ctx, random, ns, f.cast.tools[random.IntN(n)])
		return
	}
	switch n := random.IntN(100); {
	case n < 30:
		f.changeShared(ctx, random, newMap(ns, shared, nil))
	case n < 38:
		f.delete(ctx, newMap(ns, shared, nil))
	case n < 44:
		f.delete(ctx, newMap(ns, shared, nil))
		f.changeShared(ctx, random, newMap(ns, shared, nil))
	case n < 60:
		f.changeOwn(ctx, random, newMap(ns, page+"-own", nil))
	case n < 78:
		f.ambush(ctx, random, ns, page, shared)
	case n < 82:
		m := newMap(ns, page+"-extra", nil)
		if random.IntN(2) == 0 {
			f.delete(ctx, m)
		} else {
			f.change(ctx, m, func() { m.Data["html"] = "tampered" })
		}
	default:
		f.changePage(ctx, random, newPage(ns, page))
	}
}

// ambush changes a ConfigMap of a page, and then the page, so that a run writes to the ConfigMap
// before it has seen the change if the watch is late.
func (f *foreigners) ambush(ctx context.Context, random *rand.Rand, ns, page, shared string) {
	m := newMap(ns, page+"-own", nil)
	change := func() { m.Data["more"] = fmt.Sprint(random.IntN(1000)) }
	if random.IntN(2) == 0 {
		m = newMap(ns, shared, nil)
		change = func() {
			m.Data["theirs"] = fmt.Sprint(random.IntN(1000))
			if keys := primariesOf(m); len(keys) > 0 {
				page = keys[random.IntN(len(keys))].Name
			}
		}
	}
	html := fmt.Sprintf("h%d", random.IntN(1000))
	if f.change(ctx, m, change) {
		p := newPage(ns, page)
		f.change(ctx, p, func() { p.Spec.HTML = html })
	}
}

func (f *foreigners) changeShared(ctx context.Context, random *rand.Rand, m *corev1.ConfigMap) {
	moves, flips := random.IntN(2) == 0, f.flips && random.IntN(3) == 0
	set := func() {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Data["theirs"] = fmt.Sprint(random.IntN(1000))
		if moves {
			m.Labels[forLabel] = f.some(random)
		}
		if flips {
			m.Labels[watchedLabel] = []string{"yes", "no"}[random.IntN(2)]
		}
	}
	if !f.change(ctx, m, set) {
		moves = true
		m = newMap(m.Namespace, m.Name, nil)
		set()
		f.create(ctx, m)
	}
}

// some names up to three pages.
func (f *foreigners) some(random *rand.Rand) string {
	names := make([]string, random.IntN(3)+1)
	for i := range names {
		names[i] = f.cast.pages[random.IntN(len(f.cast.pages))]
	}
	return strings.Join(names, ".")
}

func (f *foreigners) changeOwn(ctx context.Context, random *rand.Rand, m *corev1.ConfigMap) {
	switch random.IntN(5) {
	case 0:
		f.delete(ctx, m)
	case 1:
		f.change(ctx, m, func() { m.OwnerReferences = nil })
	case 2:
		f.change(ctx, m, func() { m.Data["more"] = fmt.Sprint(random.IntN(1000)) })
	case 3:
		if f.flips {
			f.change(ctx, m, func() { m.Labels[watchedLabel] = "no" })
			return
		}
		fallthrough
	default:
		f.change(ctx, m, func() { m.Data["html"] = "tampered" })
	}
}

func (f *foreigners) changePage(ctx context.Context, random *rand.Rand, p *page) {
	switch n := random.IntN(12); {
	case n < 4:
		html := fmt.Sprintf("h%d", random.IntN(1000))
		if !f.change(ctx, p, func() { p.Spec.HTML = html }) {
			f.create(ctx, newPage(p.Namespace, p.Name))
		}
	case n < 6:
		f.change(ctx, p, func() { p.Spec.Exposed = !p.Spec.Exposed })
	case n < 8: // nothing but an annotation
		f.change(ctx, p, func() {})
	case n < 9:
		f.change(ctx, p, func() {
			if p.DeletionTimestamp == nil {
				p.Finalizers = append(without(p.Finalizers, foreignFinalizer), foreignFinalizer)
			}
		})
	case n < 10:
		f.delete(ctx, p)
	default:
		f.create(ctx, newPage(p.Namespace, p.Name))
	}
}

func newPage(ns, name string) *page {
	return &page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: webpagev1.WebPageSpec{HTML: "h"}}
}

func without(list []string, one string) []string {
	var rest []string
	for _, s := range list {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}
