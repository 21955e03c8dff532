package interlock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/framework"
)

// Relation defines which dependents of type D may be using which providers. Both sides must declare
// it in the same way.
//
// A dependent claims the providers that it may be using with annotations and labels. The [Gate]
// adds them before it looks at a provider, and removes them only when the implementation no longer
// uses it. So the references of a dependent may change at any time.
type Relation[D framework.Object] struct {
	// Name is a DNS subdomain in a domain of the author's, such as "databases.example.com", of at most
	// 128 bytes. Required. It is the prefix of the finalizer and of the claims, and the field manager
	// of the claims.
	Name string
	// Providers returns what a dependent refers to. Required. A name without a namespace is in the
	// dependent's namespace, unless ClusterScoped. A name that no object can have, such as one with a
	// slash, is denied as [Absent], and one with a comma, which separates claims, as [Unclaimable],
	// both without a request. It must be pure.
	Providers func(dependent D) []types.NamespacedName
	// ClusterScoped says that providers have no namespace.
	ClusterScoped bool
	// MayUse reports whether the implementation of a dependent that claims a provider may be using it.
	// Default: it may, as long as the dependent exists. It may return false only if the provider is
	// certainly not used, and never will be again while the claim exists. It must be pure.
	MayUse func(dependent D, provider types.NamespacedName) bool
	// Unclaimed does without claims: a dependent may be using what Providers returns. It is for
	// dependents that cannot have labels, and correct only if their references never change. Select,
	// if set, then narrows the list that a provider's deletion takes.
	Unclaimed bool
	// Select narrows that list, for Unclaimed. All dependents that may be using the provider must
	// match.
	Select func(provider types.NamespacedName) framework.Selection
}

// Finalizer returns the finalizer of protected providers.
func (r *Relation[D]) Finalizer() string { return r.Name + "/interlock" }

// Annotation returns the key of the annotation in which a dependent names the providers that it
// claims, sorted, separated by commas.
func (r *Relation[D]) Annotation() string { return r.Name + "/claims" }

// leaving returns the key of the annotation of a dependent some of whose claims are about to be
// removed, though it refers to the providers.
func (r *Relation[D]) leaving() string { return r.Name + "/leaving" }

// instance returns the key of the annotation that names the instance of a gate which wrote the
// claims.
func (r *Relation[D]) instance() string { return r.Name + "/gate" }

// Label returns the key of the label that a dependent has for a provider that it claims. The value
// is the provider's name, shortened to a valid label value, for people to read.
func (r *Relation[D]) Label(provider types.NamespacedName) string {
	sum := sha256.Sum256([]byte(provider.String()))
	return r.Name + "/" + hex.EncodeToString(sum[:16])
}

// Claims returns the providers that a dependent claims, sorted: those in its annotation that have a
// label, too.
func (r *Relation[D]) Claims(dependent metav1.Object) []types.NamespacedName {
	var all []types.NamespacedName
	for _, text := range strings.Split(dependent.GetAnnotations()[r.Annotation()], ",") {
		namespace, name, qualified := strings.Cut(text, "/")
		if !qualified {
			namespace, name = "", text
		}
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if _, confirmed := dependent.GetLabels()[r.Label(key)]; confirmed && name != "" {
			all = append(all, key)
		}
	}
	return sorted(all)
}

// Keeps reports whether a provider has the finalizer. A dependent that is also a provider, and in
// deletion, may still be used while it does: its implementation should stay until then. To wait for
// that in Cleanup, set [framework.ControllerOptions].AllGenerations, because removing another
// finalizer is no new generation.
func (r *Relation[D]) Keeps(provider metav1.Object) bool {
	return slices.Contains(provider.GetFinalizers(), r.Finalizer())
}

// validate returns an error that names every invalid field.
func (r *Relation[D]) validate() error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(r.Name); len(problems) > 0 || !strings.Contains(r.Name, ".") || len(r.Name) > 128 {
		errs = append(errs, fmt.Errorf("interlock: Relation.Name %q: must be a DNS subdomain of at most 128 bytes, such as databases.example.com", r.Name))
	}
	if r.Providers == nil {
		errs = append(errs, fmt.Errorf("interlock: relation %q: Providers must not be nil", r.Name))
	}
	if r.Select != nil && !r.Unclaimed {
		errs = append(errs, fmt.Errorf("interlock: relation %q: Select is only for Unclaimed: claims select by themselves", r.Name))
	}
	return errors.Join(errs...)
}

// refers returns the providers that a dependent refers to, sorted and without duplicates. It
// returns none if the function is missing, which validate reports.
func (r *Relation[D]) refers(dependent D) []types.NamespacedName {
	if r.Providers == nil {
		return nil
	}
	var all []types.NamespacedName
	for _, key := range r.Providers(dependent) {
		if r.ClusterScoped {
			key.Namespace = ""
		} else if key.Namespace == "" {
			key.Namespace = dependent.GetNamespace()
		}
		if key.Name != "" {
			all = append(all, key)
		}
	}
	return sorted(all)
}

// splitByName separates the providers that can be granted from those that cannot because of their
// name.
func (r *Relation[D]) splitByName(providers []types.NamespacedName) (possible, impossible []types.NamespacedName) {
	for _, key := range providers {
		if reason, _ := r.misnamed(key); reason == 0 {
			possible = append(possible, key)
		} else {
			impossible = append(impossible, key)
		}
	}
	return possible, impossible
}

// misnamed returns why a provider cannot be granted because of its name, or zero: it is not a valid
// path segment, or contains a comma, so that a claim of it would read as two.
func (r *Relation[D]) misnamed(key types.NamespacedName) (reason Reason, why string) {
	for _, part := range []string{key.Namespace, key.Name} {
		if problems := content.IsPathSegmentName(part); len(problems) > 0 {
			return Absent, "nothing can have that name: it " + strings.Join(problems, ", ")
		}
	}
	if !r.Unclaimed && strings.Contains(key.String(), ",") {
		return Unclaimable, "no claim can name it: it must not contain ','"
	}
	return 0, ""
}

// mayUse returns the providers that a dependent may be using, sorted.
func (r *Relation[D]) mayUse(dependent D) []types.NamespacedName {
	all := r.claims(dependent)
	if r.MayUse == nil {
		return all
	}
	return slices.DeleteFunc(all, func(key types.NamespacedName) bool { return !r.MayUse(dependent, key) })
}

// claims returns the claims, or for Unclaimed the references.
func (r *Relation[D]) claims(dependent D) []types.NamespacedName {
	if r.Unclaimed {
		return r.refers(dependent)
	}
	return r.Claims(dependent)
}

// uses reports whether a dependent may be using a provider.
func (r *Relation[D]) uses(dependent D, provider types.NamespacedName) bool {
	return slices.Contains(r.mayUse(dependent), provider)
}

// lostClaim reports whether a change has removed a claim that the dependent must still have. A gate
// that removes the claim of something that is still referred to has announced it before.
func (r *Relation[D]) lostClaim(old, new D) bool {
	if r.Unclaimed {
		return false
	}
	if _, announced := old.GetAnnotations()[r.leaving()]; announced || new.GetDeletionTimestamp() != nil {
		return false
	}
	before, now := r.Claims(old), r.Claims(new)
	if slices.Equal(before, now) {
		return false
	}
	refers := r.refers(new)
	return slices.ContainsFunc(before, func(key types.NamespacedName) bool {
		return !slices.Contains(now, key) && slices.Contains(refers, key)
	})
}

// selection returns which dependents a consistent list must request.
func (r *Relation[D]) selection(provider types.NamespacedName) framework.Selection {
	switch {
	case !r.Unclaimed:
		return framework.Selection{LabelSelector: r.Label(provider)}
	case r.Select != nil:
		return r.Select(provider)
	}
	return framework.Selection{}
}

// sorted returns the keys sorted and without duplicates.
func sorted(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, compare)
	return slices.Compact(keys)
}

func compare(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// text returns the name of a provider in an annotation.
func text(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}
