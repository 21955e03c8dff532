package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// names are what a project, or one kind of it, is called.
type names struct {
	module  string // path of the Go module
	project string // of the folder, the namespace, the lease and everything else in a cluster
	group   string // of the API
	kind    string
	plural  string // of the kind, as in URLs
}

var (
	elements = regexp.MustCompile(`^[A-Za-z0-9_~-]+(\.+[A-Za-z0-9_~-]+)*$`) // of a module path
	labels   = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)      // RFC 1035
	groups   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	kinds    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,50}$`)
	majors   = regexp.MustCompile(`^v[0-9]+$`)
)

// namesOf returns the names of a project with one kind. An empty group or plural means the default.
func namesOf(module, group, kind, plural string) (names, error) {
	path := strings.Split(module, "/")
	for _, element := range path {
		if !elements.MatchString(element) {
			return names{}, fmt.Errorf("MODULE %q: is no module path: its element %q is empty or has characters other than letters, digits, \".\", \"_\", \"~\" and \"-\"", module, element)
		}
	}
	if strings.HasPrefix(module, "-") {
		return names{}, fmt.Errorf("MODULE %q: is no module path: it begins with \"-\"", module)
	}
	if len(path) > 1 && majors.MatchString(path[len(path)-1]) {
		path = path[:len(path)-1]
	}
	n := names{module: module, project: path[len(path)-1], group: group}
	switch {
	case !labels.MatchString(n.project):
		return names{}, fmt.Errorf("MODULE %q: its end %q is the name of the operator's namespace, too: want lower-case letters, digits and \"-\", with a letter first, at most 63", module, n.project)
	case n.project == "default" || strings.HasPrefix(n.project, "kube-"):
		return names{}, fmt.Errorf("MODULE %q: its end %q is the name of the operator's namespace, too: Kubernetes uses that itself", module, n.project)
	}
	if group == "" {
		if n.group = groupOf(path); n.group == "" {
			return names{}, fmt.Errorf("MODULE %q: the API's group does not follow from it: set -group, as in -group example.com", module)
		}
	}
	if err := validGroup(n.group); err != nil {
		return names{}, err
	}
	return n.ofKind(kind, plural)
}

// groupOf returns the default group: the host, after the elements between it and the last one in
// reverse order. It is empty if that is no group.
func groupOf(path []string) string {
	between := slices.Clone(path[:max(len(path)-1, 0)])
	slices.Reverse(between)
	group := strings.ToLower(strings.Join(between, "."))
	if validGroup(group) != nil {
		return ""
	}
	return group
}

func validGroup(group string) error {
	switch {
	case !groups.MatchString(group) || len(group) > 190:
		return fmt.Errorf("-group %q: want a domain in lower case, as example.com", group)
	case strings.HasSuffix("."+group, ".k8s.io"), strings.HasSuffix("."+group, ".kubernetes.io"):
		return fmt.Errorf("-group %q: API servers refuse kinds of k8s.io and kubernetes.io that the Kubernetes project has not approved", group)
	}
	return nil
}

// ofKind returns the names with those of a kind. An empty plural means the default.
func (n names) ofKind(kind, plural string) (names, error) {
	n.kind, n.plural = kind, plural
	switch {
	case !kinds.MatchString(kind):
		return n, fmt.Errorf("KIND %q: want CamelCase, as Greeting: letters and digits, an upper-case letter first, at most 51", kind)
	case strings.HasSuffix(kind, "List"):
		return n, fmt.Errorf("KIND %q: must not end in List: lists of a kind are called so", kind)
	case kind == "GroupVersion" || kind == "AddToScheme":
		return n, fmt.Errorf("KIND %q: the package of the API has something else of that name", kind)
	}
	if plural == "" {
		n.plural = pluralOf(n.singular())
	}
	if !labels.MatchString(n.plural) {
		return n, fmt.Errorf("-plural %q: want lower-case letters, digits and \"-\", with a letter first, at most 63", n.plural)
	}
	return n, nil
}

func (n names) singular() string { return strings.ToLower(n.kind) }

// pluralOf returns the plural of an English word by the rules that have few exceptions.
func pluralOf(word string) string {
	before := ' ' // the last letter but one
	if len(word) > 1 {
		before = rune(word[len(word)-2])
	}
	switch {
	case strings.HasSuffix(word, "y") && !strings.ContainsRune(" aeiou", before):
		return word[:len(word)-1] + "ies"
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "z"),
		strings.HasSuffix(word, "ch"), strings.HasSuffix(word, "sh"):
		return word + "es"
	}
	return word + "s"
}

// fill replaces the placeholders of a template.
func (n names) fill(text string) string {
	return strings.NewReplacer("@MODULE@", n.module, "@NAME@", n.project, "@GROUP@", n.group,
		"@KIND@", n.kind, "@PLURAL@", n.plural, "@SINGULAR@", n.singular()).Replace(text)
}
