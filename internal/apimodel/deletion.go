package apimodel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// deleteLocked returns the object, or a Status if it went at once and its kind does not return it.
func (m *store) deleteLocked(c *call) (answer any, err error) {
	options, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	return m.removeLocked(c, options)
}

// removeLocked is [store.deleteLocked] with options.
func (m *store) removeLocked(c *call, options *metav1.DeleteOptions) (answer any, err error) {
	old, err := m.getLocked(c)
	if err != nil {
		return nil, err
	}
	if c.resource.orphans && options.PropagationPolicy == nil {
		options.PropagationPolicy = ptr.To(metav1.DeletePropagationOrphan)
	}
	if err := c.checkPreconditions(options, old); err != nil {
		return nil, err
	}
	if m.held(c.resource, old) {
		return m.terminateLocked(c, old, options)
	}
	o := old.DeepCopy()
	graceful, pending := c.resource.terminate(o, options)
	if pending {
		return old, nil
	}
	o.SetFinalizers(propagated(o.GetFinalizers(), options))
	finalized := len(o.GetFinalizers()) > 0
	if finalized && !graceful {
		markAsDeleting(o)
	}
	if unfinalized := !finalized && len(old.GetFinalizers()) > 0; unfinalized && !graceful && options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
		// The server looks for the version that it would have updated the finalizers to, but deletes
		// without an update.
		return nil, apierrors.NewConflict(c.resource.gr, c.Name, errors.New(optimisticLock))
	}
	if (finalized || graceful) && !sameButTimes(old, o) {
		old = m.commitLocked(c, watch.Modified, o)
	}
	if finalized || graceful && *o.GetDeletionGracePeriodSeconds() > 0 {
		return old, nil
	}
	gone := m.commitLocked(c, watch.Deleted, old.DeepCopy())
	if c.resource.ReturnsDeleted {
		return gone, nil
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: c.Name, Group: c.resource.Group, Kind: c.resource.Plural, UID: gone.GetUID()},
	}, nil
}

// deleteAllLocked deletes what a list shows, and returns that list.
func (m *store) deleteAllLocked(c *call) (int, any, error) {
	options, err := c.deleteOptions()
	if err != nil {
		return 0, nil, err
	}
	selects, err := c.selection()
	if err != nil {
		return 0, nil, err
	}
	code, list, err := m.listLocked(c)
	if err != nil {
		return 0, nil, err
	}
	for _, o := range sorted(c.resource.objects, c.Namespace) {
		if !selects(o) {
			continue
		}
		one := *c
		one.Namespace, one.Name = o.GetNamespace(), o.GetName()
		if _, err := m.removeLocked(&one, options.DeepCopy()); err != nil {
			return 0, nil, err
		}
	}
	return code, list, nil
}

func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(c.Body) == 0 {
		return options, nil
	}
	if c.contentType == runtime.ContentTypeProtobuf {
		kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.Body, &kind, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else {
		content, err := fromJSON(c.Body)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	c.dry = slices.Contains(options.DryRun, metav1.DryRunAll) // options in a body replace those in the URL
	return options, nil
}

func (c *call) checkPreconditions(options *metav1.DeleteOptions, o *unstructured.Unstructured) error {
	p := options.Preconditions
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != o.GetUID():
		return apierrors.NewConflict(c.resource.gr, c.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, o.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion():
		return apierrors.NewConflict(c.resource.gr, c.Name, errors.New(optimisticLock))
	}
	return nil
}

// terminate starts or shortens a graceful deletion, if the kind has that. It is pending if one is
// under way that the request does not shorten.
func (r *endpoints) terminate(o *unstructured.Unstructured, options *metav1.DeleteOptions) (graceful, pending bool) {
	if r.Grace == nil {
		return false, false
	}
	wanted := options.GracePeriodSeconds
	if wanted != nil && *wanted < 0 {
		wanted = ptr.To[int64](1)
	}
	if o.GetDeletionTimestamp() != nil {
		present := o.GetDeletionGracePeriodSeconds()
		switch {
		case present == nil || *present == 0:
			return false, false // only finalizers keep it
		case wanted == nil || *wanted >= *present:
			return false, true
		}
		shorten(o, *present, *wanted)
		return true, false
	}
	seconds := r.Grace(o)
	if wanted != nil && seconds > 0 {
		seconds = *wanted
	}
	end := metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second)).Rfc3339Copy()
	o.SetDeletionTimestamp(&end)
	o.SetDeletionGracePeriodSeconds(&seconds)
	countDeletion(o)
	return true, false
}

// shorten moves the end of a graceful deletion, but never into the past.
func shorten(o *unstructured.Unstructured, from, to int64) {
	end := o.GetDeletionTimestamp().Add(time.Duration(to-from) * time.Second)
	if now := time.Now(); end.Before(now) {
		end, to = now, min(to, 1)
	}
	at := metav1.NewTime(end).Rfc3339Copy()
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&to)
}

func markAsDeleting(o *unstructured.Unstructured) {
	now := metav1.Now().Rfc3339Copy()
	if at := o.GetDeletionTimestamp(); at == nil || at.After(now.Time) {
		o.SetDeletionTimestamp(&now)
	}
	if o.GetDeletionGracePeriodSeconds() == nil {
		countDeletion(o)
	}
	o.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
}

// countDeletion: the wish to delete is a new generation of kinds that count.
func countDeletion(o *unstructured.Unstructured) {
	if g := o.GetGeneration(); g > 0 {
		o.SetGeneration(g + 1)
	}
}

// propagated returns the finalizers with those that the propagation policy asks for.
func propagated(finalizers []string, options *metav1.DeleteOptions) []string {
	wanted := ""
	switch policy := options.PropagationPolicy; {
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		wanted = metav1.FinalizerDeleteDependents
	case policy != nil && *policy == metav1.DeletePropagationOrphan:
		wanted = metav1.FinalizerOrphanDependents
	case policy == nil:
		return finalizers
	}
	if wanted != "" && slices.Contains(finalizers, wanted) {
		return finalizers
	}
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	if wanted != "" {
		kept = append(kept, wanted)
	}
	if len(kept) == 0 {
		return nil // no list, as typed objects have it, instead of an empty one
	}
	return kept
}
