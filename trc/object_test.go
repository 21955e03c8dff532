package trc_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/trc"
)

// kinds make an object of each sort there is.
var kinds = map[string]func(version, manager string, at time.Time) trc.Object{
	"typed": func(version, manager string, at time.Time) trc.Object {
		return &corev1.ConfigMap{ObjectMeta: metaOf(version, manager, at)}
	},
	"metadata-only": func(version, manager string, at time.Time) trc.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metaOf(version, manager, at)}
	},
	"unstructured": func(version, manager string, at time.Time) trc.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		m := metaOf(version, manager, at)
		u.SetNamespace(m.Namespace)
		u.SetName(m.Name)
		u.SetUID(m.UID)
		u.SetResourceVersion(m.ResourceVersion)
		u.SetManagedFields(m.ManagedFields)
		return u
	},
}

func metaOf(version, manager string, at time.Time) metav1.ObjectMeta {
	older, newest := metav1.NewTime(at.Add(-time.Hour)), metav1.NewTime(at)
	fields := metav1.NewFieldsV1(`{"f:data":{}}`)
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "a", UID: "u1", ResourceVersion: version,
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "first", Operation: metav1.ManagedFieldsOperationApply, Time: &older, FieldsV1: fields},
			{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &newest, FieldsV1: fields},
			{Manager: "timeless", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fields},
		},
	}
}

func TestObjectsOfAllSortsGoThroughAlike(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			streamed, err := r.watch.Transformer()(make("5", "lister", at))
			r.must(err)
			streamed, err = r.watch.Transformer()(streamed) // twice does no harm
			r.must(err)
			r.must(r.watch.Replace([]any{streamed}, "10"))
			r.sees("a", "u1@5")
			r.lastManagerIs("lister", at)
			r.must(r.Acknowledge(make("11", "writer", at.Add(time.Second)), trc.Proof{}))
			r.sees("a", "u1@11")
			r.lastManagerIs("writer", at.Add(time.Second))
			r.updates(make("12", "other", at.Add(time.Minute)))
			r.sees("a", "u1@12")
			r.lastManagerIs("other", at.Add(time.Minute))
			if n := len(r.Get(key("a")).GetManagedFields()); n != 0 {
				t.Errorf("%d managedFields are kept", n)
			}
			r.must(r.Acknowledge(make("14", "writer", at), trc.Proof{}))
			r.bookmark(14) // passed without having existed: the watch's state is visible again
			r.lastManagerIs("other", at.Add(time.Minute))
			r.gone("a", "u1@12")
			r.sees("a", "absent")
			r.deletes(make("15", "other", at))
			r.isAhead(0)
			if _, _, ok := r.LastManager(key("a")); ok {
				t.Error("what is gone has a last manager")
			}
		})
	}
}

func (r *rig) lastManagerIs(want string, wantAt time.Time) {
	r.t.Helper()
	manager, at, ok := r.LastManager(key("a"))
	if !ok || manager != want || !at.Equal(wantAt) {
		r.t.Errorf("last manager: %q at %v, %v; want %q at %v", manager, at, ok, want, wantAt)
	}
}

func TestObjectThatDoesNotSayHasNoLastManager(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	if manager, at, ok := r.LastManager(key("a")); ok {
		t.Errorf("%q at %v", manager, at)
	}
}

func TestBadInputIsRefusedWithNothingHalfRecorded(t *testing.T) {
	for name, bad := range map[string]any{
		"no name":          object("", "u1@11"),
		"no version":       object("b", "u1@"),
		"no uid":           object("b", "@11"),
		"empty":            &corev1.ConfigMap{},
		"empty of any":     &unstructured.Unstructured{},
		"nil":              nil,
		"nil of a type":    (*corev1.ConfigMap)(nil),
		"nil of any":       (*unstructured.Unstructured)(nil),
		"no API object":    &metav1.Status{},
		"no object at all": "text",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10, object("a", "u1@5"))
			r.acknowledge(object("c", "u3@12"))
			r.told = nil
			good := object("b", "u2@11")
			good.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
			errs := map[string]error{
				"add": r.watch.Add(bad), "update": r.watch.Update(bad), "delete": r.watch.Delete(bad),
				"list": r.watch.Replace([]any{good, bad}, "15"),
			}
			if o, ok := bad.(trc.Object); ok || bad == nil {
				errs["acknowledge"] = r.Acknowledge(o, trc.Proof{})
			}
			for what, err := range errs {
				if err == nil || !strings.Contains(err.Error(), "trc: store configmaps: ") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := r.watch.Transformer()(bad); err != nil {
				t.Errorf("the Transformer: %v", err)
			}
			r.tells()
			r.isAhead(1)
			if r.Len() != 2 || !r.Comparable() || len(good.ManagedFields) != 1 {
				t.Errorf("something was recorded: %v, comparable %v, %v", r.Keys(""), r.Comparable(), good.ManagedFields)
			}
		})
	}
}

func TestGoneWithoutNameOrUIDIsNothing(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.AcknowledgeGone(key("a"), "", "99")
	r.AcknowledgeGone(key(""), "u1", "99")
	r.isAhead(0)
	r.sees("a", "u1@5")
}
