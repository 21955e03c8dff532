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

// Relation says which dependents of type D may be using which providers. Both sides must declare it alike.
//
// A dependent claims the providers that it may be using: annotations and labels on it, which the [Gate] puts on before it looks at a provider,
// and takes off only when the implementation has let go of it. So what a dependent refers to may change at any time.
type Relation[D framework.Object] struct {
	// Name is a DNS subdomain in a domain of the author's, such as "databases.example.com", of at most 128 bytes: the prefix of the finalizer
	// and of the claims, and the field manager of these. Required.
	Name string
	// Providers names what a dependent refers to. A name without a namespace is one in the dependent's, unless ClusterScoped. One that nothing
	// can have, with a slash, say, is denied as [Absent], and one with a comma, which parts claims, as [Unclaimable], with no request. It must be pure. Required.
	Providers func(dependent D) []types.NamespacedName
	// ClusterScoped says that providers have no namespace.
	ClusterScoped bool
	// MayUse tells, of a dependent that claims a provider, whether its implementation may be using it: false only where it certainly
	// is not, and never will be again while the claim is there. It must be pure. Default: it may, for as long as the dependent exists.
	MayUse func(dependent D, provider types.NamespacedName) bool
	// Unclaimed does without claims: a dependent may be using what Providers names. It is for dependents that nobody can put labels on, and right only if their references
	// never change; the list that a provider's deletion takes is narrowed by Select then, if it is set.
	Unclaimed bool
	// Select narrows that list, for Unclaimed. All that may be using the provider must match.
	Select func(provider types.NamespacedName) framework.Selection
}

// Finalizer is what a provider carries that is kept.
func (r *Relation[D]) Finalizer() string { return r.Name + "/interlock" }

// Annotation is where a dependent names the providers that it claims, sorted, separated by commas.
func (r *Relation[D]) Annotation() string { return r.Name + "/claims" }

// leaving is the annotation of a dependent some of whose claims are about to go, though it refers to the providers.
func (r *Relation[D]) leaving() string { return r.Name + "/leaving" }

// instance is the annotation of a dependent that says which instance of a gate wrote its claims.
func (r *Relation[D]) instance() string { return r.Name + "/gate" }

// Label is the label that a dependent carries for a provider that it claims. Its value is the provider's name, cut to what a label may hold, for people to read.
func (r *Relation[D]) Label(provider types.NamespacedName) string {
	sum := sha256.Sum256([]byte(provider.String()))
	return r.Name + "/" + hex.EncodeToString(sum[:16])
}

// Claims are the providers that a dependent claims, sorted: what its annotation names, and a label confirms.
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

// Keeps tells whether a provider carries the finalizer. A dependent that is a provider, too, and in deletion, may still be used as long as it does: its
// implementation should stay until then. Who waits for that in Cleanup needs [framework.ControllerOptions.AllGenerations], as the end of another's finalizer is no new
// generation.
func (r *Relation[D]) Keeps(provider metav1.Object) bool {
	return slices.Contains(provider.GetFinalizers(), r.Finalizer())
}

// validate reports what cannot be.
func (r *Relation[D]) validate() error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(r.Name); len(problems) > 0 || !strings.Contains(r.Name, ".") || len(r.Name) > 128 {
		errs = append(errs, fmt.Errorf("interlock: Relation.Name %q: must be a DNS subdomain of at most 128 bytes, such as databases.example.com", r.Name))
	}
	if r.Providers == nil {
		errs = append(errs, fmt.Errorf("interlock: relation %q: Providers must not be nil", r.Name))
	}
	if r.Select != nil && !r.Unclaimed {
		errs = append(errs, fmt.Errorf("interlock: relation %q: Select is for Unclaimed: claims select by themselves", r.Name))
	}
	return errors.Join(errs...)
}

// refers are the providers that a dependent refers to, each once, sorted; none where the function is missing, which validate reports.
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

// parted parts what can be granted from what cannot for its name alone.
func (r *Relation[D]) parted(providers []types.NamespacedName) (possible, impossible []types.NamespacedName) {
	for _, key := range providers {
		if reason, _ := r.misnamed(key); reason == 0 {
			possible = append(possible, key)
		} else {
			impossible = append(impossible, key)
		}
	}
	return possible, impossible
}

// misnamed says why a provider cannot be granted for its name alone, zero if it can: no path leads to it, or, as commas part claims from each other, a claim of it
// would read as two.
func (r *Relation[D]) misnamed(key types.NamespacedName) (reason Reason, why string) {
	for _, part := range []string{key.Namespace, key.Name} {
		if problems := content.IsPathSegmentName(part); len(problems) > 0 {
			return Absent, "nothing can have that name: it " + strings.Join(problems, ", ")
		}
	}
	if !r.Unclaimed && strings.Contains(key.String(), ",") {
		return Unclaimable, "no claim can name it: it may not contain ','"
	}
	return 0, ""
}

// mayUse are the providers that a dependent may be using, sorted.
func (r *Relation[D]) mayUse(dependent D) []types.NamespacedName {
	all := r.claims(dependent)
	if r.MayUse == nil {
		return all
	}
	return slices.DeleteFunc(all, func(key types.NamespacedName) bool { return !r.MayUse(dependent, key) })
}

// claims are what stands for claims.
func (r *Relation[D]) claims(dependent D) []types.NamespacedName {
	if r.Unclaimed {
		return r.refers(dependent)
	}
	return r.Claims(dependent)
}

// uses tells whether a dependent may be using a provider.
func (r *Relation[D]) uses(dependent D, provider types.NamespacedName) bool {
	return slices.Contains(r.mayUse(dependent), provider)
}

// robbed tells whether a change has taken a claim off a dependent that it is still to have. A gate that takes off what is referred to has said so before.
func (r *Relation[D]) robbed(old, new D) bool {
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

// selection are those that a consistent list must ask for.
func (r *Relation[D]) selection(provider types.NamespacedName) framework.Selection {
	switch {
	case !r.Unclaimed:
		return framework.Selection{LabelSelector: r.Label(provider)}
	case r.Select != nil:
		return r.Select(provider)
	}
	return framework.Selection{}
}

// sorted sorts keys, each once.
func sorted(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, compare)
	return slices.Compact(keys)
}

func compare(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// text names a provider in an annotation.
func text(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}
