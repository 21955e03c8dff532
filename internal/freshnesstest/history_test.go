package freshnesstest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/trc"
)

// commit is one state of an object, as etcd tells it.
type commit struct {
	revision int64
	uid      types.UID
	deleted  bool
	// visible: it is there, and within the operator's selector.
	visible   bool
	primaries []trc.Key
	page      *page
	m         *corev1.ConfigMap
	tool      *unstructured.Unstructured
}

func (c commit) isFor(primary trc.Key) bool {
	return c.visible && slices.Contains(c.primaries, primary)
}

func (c commit) String() string {
	return fmt.Sprintf("%d uid=%.8s deleted=%v visible=%v for=%v", c.revision, c.uid, c.deleted, c.visible, c.primaries)
}

// history is all states of the objects in scope.
type history struct {
	namespaces []string
	visible    func(metav1.Object) bool
	read       int // events of the truth taken in
	objects    map[object][]commit
	last       int64 // the newest revision in scope
}

// take takes in what the truth tells from where it was.
func (h *history) take(events []testenv.Event) error {
	for _, e := range events[h.read:] {
		h.read++
		what, ok := h.scope(e.Key)
		if !ok {
			continue
		}
		c, err := h.commitOf(e)
		if err != nil {
			return err
		}
		h.objects[what] = append(h.objects[what], c)
		h.last = e.Revision
	}
	return nil
}

func (h *history) scope(key string) (object, bool) {
	rest, ok := strings.CutPrefix(key, "/registry/configmaps/")
	k := configMap
	if !ok {
		rest, ok = strings.CutPrefix(key, "/registry/samples.evenkeel.dev/webpages/")
		k = webPage
	}
	if !ok {
		rest, ok = strings.CutPrefix(key, "/registry/fresh.evenkeel.dev/tools/")
		k = tools
	}
	ns, name, _ := strings.Cut(rest, "/")
	return object{k, trc.Key{Namespace: ns, Name: name}}, ok && slices.Contains(h.namespaces, ns)
}

func (h *history) commitOf(e testenv.Event) (commit, error) {
	o, err := e.Object()
	if err != nil {
		return commit{}, err
	}
	c := commit{revision: e.Revision, uid: o.(metav1.Object).GetUID(), deleted: e.Deleted}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		c.m, c.primaries = o, primariesOf(o)
		c.visible = !e.Deleted && h.visible(o)
	case *unstructured.Unstructured:
		if o.GroupVersionKind() == toolGVK {
			c.tool, c.visible, c.primaries = o, !e.Deleted, pageOf(o)
			break
		}
		c.page, c.visible = &page{}, !e.Deleted
		c.primaries = []trc.Key{trc.KeyOf(o)}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c.page)
	}
	return c, err
}

// now is the last commit of an object.
func (h *history) now(what object) (commit, bool) {
	commits := h.objects[what]
	if len(commits) == 0 {
		return commit{}, false
	}
	return commits[len(commits)-1], true
}

// any finds a commit of an object from a version on, up to another if that is not 0.
func (h *history) any(what object, from, to int64, is func(commit) bool) bool {
	return slices.ContainsFunc(h.objects[what], func(c commit) bool {
		return c.revision >= from && (to == 0 || c.revision < to) && is(c)
	})
}

// describe tells the history of an object from a version on.
func (h *history) describe(what object, from int64) string {
	var lines []string
	for _, c := range h.objects[what] {
		if c.revision >= from {
			lines = append(lines, "\n      "+c.String())
		}
	}
	return strings.Join(lines, "")
}
