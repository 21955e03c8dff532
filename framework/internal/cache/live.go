package cache

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// livePage is how many objects a consistent list asks for at a time.
const livePage = 500

// Selection restricts a live list. The zero value selects all objects in all namespaces. The
// selectors have kubectl's syntax.
type Selection struct{ Namespace, LabelSelector, FieldSelector string }

// ListLive lists objects from the API server. It adds each object to the caches, then passes it to
// take, until take returns false.
func (c *Cluster) ListLive(ctx context.Context, r *client.Client, selection Selection, take func(trc.Object) bool) error {
	l := liveList{cluster: c, as: r, in: r, selection: selection}
	if r.Form == object.Typed && c.keepsUnstructured(r.GVK) { // makes all forms
		var err error
		if l.in, err = c.ClientIn(ctx, object.Unstructured, r.GVK); err != nil {
			return err
		}
	}
	from := client.ListWatch{Client: l.in, Namespace: selection.Namespace, Labels: selection.LabelSelector, Fields: selection.FieldSelector}
	l.unlisted = c.listable(r.GVK, selection)
	for options := (metav1.ListOptions{Limit: livePage}); ; {
		page, next, err := from.Page(ctx, options)
		if err != nil {
			return err
		}
		for _, o := range page {
			read, err := l.acknowledge(ctx, o)
			if err != nil {
				return err
			}
			if !take(read) {
				return nil
			}
		}
		if options.Continue = next; next == "" {
			return l.acknowledgeUnlisted(ctx)
		}
	}
}

// liveList is a list from the API server that is under way.
type liveList struct {
	cluster   *Cluster
	as, in    *client.Client // the form that is asked for, and the form that is requested
	selection Selection
	unlisted  map[types.UID][]Entry // what caches had before the list, and it has not returned yet
}

// acknowledge adds a listed object to the caches. It returns the object in the form that is asked
// for.
func (l *liveList) acknowledge(ctx context.Context, o trc.Object) (trc.Object, error) {
	delete(l.unlisted, o.GetUID())
	got := client.AnswerOf(o)
	l.cluster.Acknowledge(ctx, l.as.GVK, got, trc.Proof{})
	read := got.Object
	if l.in != l.as {
		var err error
		if read, err = l.cluster.As(l.as.Form, l.as.GVK, got); err != nil {
			return nil, err
		}
		got = client.AnswerOf(read)
	}
	if got.Undecodable != nil {
		return nil, fmt.Errorf("%s does not fit its Go type: %w", trc.KeyOf(got), got.Undecodable)
	}
	return read, nil
}

// acknowledgeUnlisted handles the objects that caches had before the list, and that the list lacks.
// They are deleted or, with selectors, perhaps no longer selected: then it reads them.
func (l *liveList) acknowledgeUnlisted(ctx context.Context) error {
	for _, entries := range l.unlisted {
		if l.selection.LabelSelector == "" && l.selection.FieldSelector == "" {
			for _, e := range entries {
				e.acknowledgeGone()
			}
			continue
		}
		found, _, err := l.cluster.Read(ctx, l.as, trc.KeyOf(entries[0].object))
		if err != nil && !apierrors.IsNotFound(err) && found.Object == nil {
			return err
		}
	}
	return nil
}

// listable returns the cached objects of a kind that a list could return, by UID. It returns nil
// for an invalid selector, which the server refuses.
func (s *Stores) listable(gvk schema.GroupVersionKind, selection Selection) map[types.UID][]Entry {
	label, noLabels := labels.Parse(selection.LabelSelector)
	field, noFields := fields.ParseSelector(selection.FieldSelector)
	if noLabels != nil || noFields != nil {
		return nil
	}
	selected, all := selects(label, field), map[types.UID][]Entry{}
	for _, store := range s.StoresOfKind(gvk.GroupKind()) {
		for _, o := range store.List(selection.Namespace, nil) {
			if selected == nil || selected(o) {
				all[o.GetUID()] = append(all[o.GetUID()], Entry{store, o})
			}
		}
	}
	return all
}
