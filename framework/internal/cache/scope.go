package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Scope is a list of namespaces that may change while the operator runs: the operator's, or those that a controller
// names. Stores that follow it watch what it holds; they are shared among all that follow the same.
type Scope struct {
	Of         string   // the controller's name, empty for the operator
	Namespaces []string // as in the options; guarded by Operator.changing
}

// NamespaceList is namespaces as stores watch them: one "" for all.
func NamespaceList(namespaces []string) []string {
	named := slices.Compact(slices.Sorted(slices.Values(WatchedNamespaces(namespaces))))
	if len(named) == 0 {
		return []string{""}
	}
	return named
}

// Without returns a without what is in b.
func Without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(namespace string) bool { return slices.Contains(b, namespace) })
}

// WatchedNamespaces resolves a chain of defaults, the most specific first, to what stores take:
// empty for all.
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

// CheckNamespaces refuses lists that mix names with all, and names that cannot exist.
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
