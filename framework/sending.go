package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// flight is the requests that are under way for somebody, who can end them.
type flight struct {
	under sync.WaitGroup // added to under mu, and only before the end

	mu    sync.Mutex // guards everything below; a leaf
	ended bool
	next  int
	calls map[int]context.CancelFunc
}

// board lets a request take off, unless the flight has ended. The returned context ends with the flight;
// done must be called when the answer is there.
func (f *flight) board(ctx context.Context) (_ context.Context, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	if f.calls == nil {
		f.calls = map[int]context.CancelFunc{}
	}
	f.next++
	number := f.next
	f.calls[number] = cancel
	f.under.Add(1)
	return ctx, func() {
		cancel()
		f.mu.Lock()
		delete(f.calls, number)
		f.mu.Unlock()
		f.under.Done()
	}, true
}

// end lets nothing take off any more, breaks off what is under way and waits until it is down.
func (f *flight) end() {
	f.mu.Lock()
	f.ended = true
	for _, cancel := range f.calls {
		cancel()
	}
	f.mu.Unlock()
	f.under.Wait()
}

// conflict is the refusal of a write that was computed from a view which is not the present one. The
// present one has been read and laid over the caches.
type conflict struct {
	error
	live Object // nil if there is none
}

func (c *conflict) Unwrap() error { return c.error }

// onlyConflicts tells whether err is a conflict and nothing else: beside another failure, joined with it,
// it counts as that failure.
func onlyConflicts(err error) bool {
	switch err := err.(type) {
	case *conflict:
		return true
	case interface{ Unwrap() error }:
		return onlyConflicts(err.Unwrap())
	case interface{ Unwrap() []error }:
		all := err.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !onlyConflicts(err) })
	}
	return false
}

// isStale tells the refusals that say that the version or the UID is not the object's any more. Another
// field manager's claim is a conflict by name only: looking again does not help.
func isStale(refusal error) bool {
	if apierrors.IsConflict(refusal) {
		return !apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict)
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(refusal) || !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// send sends a write and lays its answer over the caches.
func (w *writer) send(ctx context.Context, r *resource, key trc.Key, verb string, request func(context.Context) (Object, error)) (Object, error) {
	ctx, done, err := w.begin(ctx, verb, r, key)
	if err != nil {
		return nil, err
	}
	defer done()
	answer, err := request(ctx)
	if err != nil {
		return nil, w.refused(ctx, r, key, fmt.Errorf("framework: %s %s: %w", verb, r.describe(key), err))
	}
	if answer.GetDeletionTimestamp() != nil && isGone(answer) {
		w.cluster.acknowledgeGone(r.gvk, answer)
		return answer, nil
	}
	if err := w.cluster.acknowledge(r.gvk, answer, trc.Proof{}); err != nil {
		return nil, err
	}
	return answer, nil
}

// refused follows a refusal that says that the caches are behind by a consistent read, so that the next
// run does not meet the same stale view.
func (w *writer) refused(ctx context.Context, r *resource, key trc.Key, refusal error) error {
	stale := isStale(refusal)
	if !stale && !apierrors.IsAlreadyExists(refusal) && !apierrors.IsNotFound(refusal) {
		return refusal
	}
	live, err := r.get(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		// What no cache shows is missing for another reason: a namespace, a sub-resource.
		stale = w.cluster.acknowledgeNone(r.gvk, key) || stale
		live = nil
	case err != nil:
		return errors.Join(refusal, fmt.Errorf("framework: get %s: %w", r.describe(key), err))
	default:
		if err := w.cluster.acknowledge(r.gvk, live, trc.Proof{}); err != nil {
			return errors.Join(refusal, err)
		}
	}
	if stale {
		return &conflict{error: refusal, live: live}
	}
	return refusal
}

// begin notes a request for the run's record, and refuses it once the run has ended. The context of the
// request ends with the run, and with the operator.
func (w *writer) begin(ctx context.Context, verb string, r *resource, key trc.Key) (_ context.Context, done func(), err error) {
	ctx, down, ok := w.cluster.flying.board(ctx)
	if !ok {
		return nil, nil, ErrRunEnded
	}
	ctx, downOfRun, ok := w.flying.board(ctx)
	if !ok {
		down()
		return nil, nil, ErrRunEnded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, verb+" "+r.describe(key))
	return ctx, func() { downOfRun(); down() }, nil
}

// end closes the writer and returns the requests it sent. None of them is under way any more.
func (w *writer) end() []string {
	w.flying.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.requests)
}

// replaced reports whether the name belongs to no object or to another one by now.
func (w *writer) replaced(ctx context.Context, r *resource, key trc.Key, uid types.UID) bool {
	live, err := r.get(ctx, key)
	return apierrors.IsNotFound(err) || (err == nil && live.GetUID() != uid)
}

// isGone tells from the answer to a write whether the object no longer exists: the server answers so
// to a deletion that took effect at once, and to the removal of the last finalizer.
func isGone(answer Object) bool {
	if len(answer.GetFinalizers()) > 0 || hasSpecFinalizers(answer) {
		return false
	}
	grace := answer.GetDeletionGracePeriodSeconds()
	return answer.GetDeletionTimestamp() == nil || grace == nil || *grace == 0
}

// hasSpecFinalizers knows the one kind whose finalizers stand elsewhere.
func hasSpecFinalizers(o Object) bool {
	switch o := o.(type) {
	case *corev1.Namespace:
		return len(o.Spec.Finalizers) > 0
	case *unstructured.Unstructured:
		if o.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
			list, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers")
			return len(list) > 0
		}
	}
	return false
}

// primary returns the primary as the run holds it, if the key is its; nil otherwise.
func (w *writer) primary(r *resource, key trc.Key) Object {
	if r.gvk != w.ownerGVK || key != trc.KeyOf(w.owner) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// follow takes the answer to a write of the primary as what the run holds, if the server carried it out
// on the version that the run held before: nothing foreign lies in between then.
func (w *writer) follow(r *resource, key trc.Key, from string, answer Object) {
	held := w.primary(r, key)
	if held == nil || held.GetResourceVersion() != from || held.GetUID() != answer.GetUID() {
		return
	}
	w.hold(answer)
}

func (w *writer) hold(primary Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = primary.DeepCopyObject().(Object) // the answer is the author's
}
