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
	in := r
	if r.Form == object.Typed && c.keepsUnstructured(r.GVK) { // makes all forms
		var err error
		if in, err = c.ClientIn(ctx, object.Unstructured, r.GVK); err != nil {
			return err
		}
	}
	from := client.ListWatch{Client: in, Namespace: selection.Namespace, Labels: selection.LabelSelector, Fields: selection.FieldSelector}
	unlisted := c.listable(r.GVK, selection)
	for options := (metav1.ListOptions{Limit: livePage}); ; {
		page, next, err := from.Page(ctx, options)
		if err != nil {
			return err
		}
		for _, o := range page {
			delete(unlisted, o.GetUID())
			got := client.AnswerOf(o)
			c.Acknowledge(ctx, r.GVK, got, trc.Proof{})
			read := got.Object
			if in != r {
				if read, err = c.As(r.Form, r.GVK, got); err != nil {
					return err
				}
				got = client.AnswerOf(read)
			}
			if got.Undecodable != nil {
				return fmt.Errorf("%s does not fit its Go type: %w", trc.KeyOf(got), got.Undecodable)
			}
			if !take(read) {
				return nil
			}
		}
		if options.Continue = next; next == "" {
			return c.acknowledgeUnlisted(ctx, r, selection, unlisted)
		}
	}
}

// listable returns the cached objects of a kind that a list could return, by UID. It returns nil
// for an invalid selector, which the server refuses.
func (c *Cluster) listable(gvk schema.GroupVersionKind, selection Selection) map[types.UID][]Entry {
	label, noLabels := labels.Parse(selection.LabelSelector)
	field, noFields := fields.ParseSelector(selection.FieldSelector)
	if noLabels != nil || noFields != nil {
		return nil
	}
	selected, all := selects(label, field), map[types.UID][]Entry{}
	for _, s := range c.StoresOfKind(gvk.GroupKind()) {
		for _, o := range s.List(selection.Namespace, nil) {
			if selected == nil || selected(o) {
				all[o.GetUID()] = append(all[o.GetUID()], Entry{s, o})
			}
		}
	}
	return all
}

// acknowledgeUnlisted handles the objects that caches had before a list, and that the list lacks.
// They are deleted or, with selectors, perhaps no longer selected: then it reads them.
func (c *Cluster) acknowledgeUnlisted(ctx context.Context, r *client.Client, selection Selection, unlisted map[types.UID][]Entry) error {
	for _, entries := range unlisted {
		if selection.LabelSelector == "" && selection.FieldSelector == "" {
			for _, s := range entries {
				s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
			}
			continue
		}
		found, _, err := c.Read(ctx, r, trc.KeyOf(entries[0].object))
		if err != nil && !apierrors.IsNotFound(err) && found.Object == nil {
			return err
		}
	}
	return nil
}
