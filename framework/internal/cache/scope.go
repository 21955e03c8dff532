package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Scope is a list of namespaces that may change while the operator runs. It belongs to the
// operator, or to a controller with namespaces of its own. Stores that follow a scope watch its
// namespaces. They are shared only with stores that follow the same scope.
type Scope struct {
	Of         string   // the controller's name; empty for the operator
	Namespaces []string // as in the options; guarded by host.Host.Changing
}

// NamespaceList returns the namespaces as stores watch them, sorted: one "" for all.
func NamespaceList(namespaces []string) []string {
	named := slices.Compact(slices.Sorted(slices.Values(WatchedNamespaces(namespaces))))
	if len(named) == 0 {
		return []string{""}
	}
	return named
}

// Without returns the elements of a that are not in b.
func Without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(namespace string) bool { return slices.Contains(b, namespace) })
}

// WatchedNamespaces resolves a chain of defaults, the most specific first. It returns an empty list
// for all namespaces.
func WatchedNamespaces(chain ...[]string) []string {
	for _, namespaces := range chain {
		if slices.Contains(namespaces, AllNamespaces) {
			return nil
		}
		if len(namespaces) > 0 {
			return namespaces
		}
	}
	return nil
}

// AllNamespaces, as the only element of a list of namespaces, stands for all of them.
const AllNamespaces = "*"

// CheckNamespaces returns an error for a list that mixes names with AllNamespaces, or that has an
// invalid name.
func CheckNamespaces(namespaces []string) error {
	if slices.Contains(namespaces, AllNamespaces) {
		if len(namespaces) > 1 {
			return errors.New("AllNamespaces must be the only element")
		}
		return nil
	}
	for _, namespace := range namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("%q: %s", namespace, strings.Join(problems, "; "))
		}
	}
	return nil
}
