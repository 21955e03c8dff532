package write

import (
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Primary is the primary of a run, as its writes see it. It is safe for concurrent use once Object
// and Gone are set.
type Primary struct {
	config *Config
	// Object is the primary as the run read it; nil until then. It must not be changed.
	Object trc.Object
	// Gone says that the primary no longer exists.
	Gone bool

	mu sync.Mutex // guards held; a leaf
	// held is the primary as the run knows it. It is the version that was read, then each answer to
	// the run's own writes that the server has proven to follow directly.
	held trc.Object
}

// Hold sets the version of the primary that the run holds. The object must not be changed.
func (p *Primary) Hold(primary trc.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = primary
}

// Held returns the version of the primary that the run holds. It must not be changed.
func (p *Primary) Held() trc.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// heldAs returns the primary as the run holds it, if r and key are those of the primary; nil
// otherwise, and if there is no primary.
func (p *Primary) heldAs(r *client.Client, key trc.Key) trc.Object {
	if p == nil || r.GVK != p.config.OwnerGVK || key != trc.KeyOf(p.Object) {
		return nil
	}
	return p.Held()
}

// follow makes the answer to a write of the primary the version that the run holds, if the server
// carried the write out on the version that the run held before. No other write came in between
// then.
func (p *Primary) follow(q *Request, answer trc.Object) {
	held := p.heldAs(q.resource, q.key)
	if held == nil || held.GetResourceVersion() != q.base.GetResourceVersion() || held.GetUID() != answer.GetUID() {
		return
	}
	if !q.options.Internal { // the author may change it
		answer = answer.DeepCopyObject().(trc.Object)
	}
	p.Hold(answer)
}

// Only the framework may add and remove the controller's finalizer. An author's write of the
// primary replaces the list of finalizers, or gives them up by not listing them: it must not lose
// that one.

// finalizerToKeep returns the controller's finalizer if the object is the primary and, as far as
// the run knows, has it. Otherwise it returns an empty string: an apply must not add a finalizer
// again that was removed, for instance after Cleanup.
func (p *Primary) finalizerToKeep(r *client.Client, key trc.Key) string {
	if p == nil || p.config.Finalizer == "" || p.Object == nil || r.GVK.GroupKind() != p.config.OwnerGVK.GroupKind() || key != trc.KeyOf(p.Object) {
		return ""
	}
	return object.FinalizerOn(p.Held(), p.config.Finalizer, p.config.FormerFinalizer)
}

// reference returns a reference to the primary, as the controller of a secondary.
func (p *Primary) reference(r *client.Client, key trc.Key) (metav1.OwnerReference, error) {
	if p.Gone {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: the primary %s is gone, and Kubernetes would delete the secondary at once", r.Describe(key), trc.KeyOf(p.Object))
	}
	if namespace := p.Object.GetNamespace(); namespace != "" && namespace != key.Namespace {
		return metav1.OwnerReference{}, fmt.Errorf(
			"framework: %s: OwnedByPrimary: the primary %s is in another namespace, and Kubernetes would delete the secondary at once; map it with Secondary.Map instead",
			r.Describe(key), trc.KeyOf(p.Object))
	}
	return *metav1.NewControllerRef(p.Object, p.config.OwnerGVK), nil
}

// own adds the primary to the owners of a secondary.
func (p *Primary) own(r *client.Client, o trc.Object) error {
	reference, err := p.reference(r, trc.KeyOf(o))
	if err != nil {
		return err
	}
	references := slices.Clone(o.GetOwnerReferences())
	same := func(other metav1.OwnerReference) bool { return other.UID == reference.UID }
	if i := slices.IndexFunc(references, same); i >= 0 {
		references[i] = reference
	} else {
		references = append(references, reference)
	}
	o.SetOwnerReferences(references)
	if p.config.Owns != nil {
		p.config.Owns(r.GVK)
	}
	return nil
}

// relate adds the primary to a secondary that is written, in the ways that the options ask for. It
// changes the object.
func (w *Writer) relate(r *client.Client, o trc.Object, options Options) error {
	key, p := trc.KeyOf(o), w.primary
	if options.Owned {
		switch {
		case w.Run.isRun() && p == nil:
			return fmt.Errorf("framework: %s: OwnedByPrimary: owner references do not reach into other clusters, which would delete the secondary at once; map it with Secondary.Map instead", r.Describe(key))
		case p == nil:
			return fmt.Errorf("framework: %s: OwnedByPrimary outside of a run", r.Describe(key))
		}
		if err := p.own(r, o); err != nil {
			return err
		}
	}
	for _, marks := range options.Marks {
		if p == nil {
			return fmt.Errorf("framework: %s: WithPrimaryRef outside of a run", r.Describe(key))
		}
		if err := marks.Put(o, p.config.OwnerGVK.GroupKind(), trc.KeyOf(p.Object)); err != nil {
			return fmt.Errorf("framework: %s: WithPrimaryRef: %w", r.Describe(key), err)
		}
	}
	return nil
}

// othersThan returns those owners that o does not name.
func othersThan(o trc.Object, owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(named metav1.OwnerReference) bool { return named.UID == owner.UID })
	})
}
