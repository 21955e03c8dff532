package frameworktest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

// right is one verb on one resource, with its sub-resource.
type right struct{ group, resource, verb string }

func (r right) String() string {
	return r.verb + " " + strings.TrimSuffix(r.resource+"."+r.group, ".")
}

// Rights returns the rules of exactly the requests that the operator made in all lives together:
// what its ClusterRole needs to say. They are sorted, one rule for all resources of a group with
// the same verbs. [Report.Role] is the ClusterRole.
//
// The rights that an API server checks in addition are among them:
//
//   - to create what an apply creates,
//   - to list what is watched: client-go lists when a watch does not begin with what there is,
//   - to update the finalizers of an owner, if the operator adds an owner reference with
//     blockOwnerDeletion,
//   - to delete an object that exists, if the operator changes its owner references, as in an
//     adoption.
//
// The last two are those of the admission plugin OwnerReferencesPermissionEnforcement, which some
// clusters enable.
func (r *Report) Rights() []rbacv1.PolicyRule {
	verbs := map[right][]string{} // of a resource; its verb is empty
	for used := range r.used() {
		key := right{group: used.group, resource: used.resource}
		verbs[key] = append(verbs[key], used.verb)
	}
	rules := map[string]*rbacv1.PolicyRule{}
	for key, of := range verbs {
		slices.Sort(of)
		name := key.group + " " + strings.Join(of, ",")
		if rules[name] == nil {
			rules[name] = &rbacv1.PolicyRule{APIGroups: []string{key.group}, Verbs: of}
		}
		rules[name].Resources = append(rules[name].Resources, key.resource)
	}
	var all []rbacv1.PolicyRule
	for _, rule := range rules {
		slices.Sort(rule.Resources)
		all = append(all, *rule)
	}
	slices.SortFunc(all, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(strings.Compare(a.APIGroups[0], b.APIGroups[0]), slices.Compare(a.Resources, b.Resources))
	})
	return all
}

// Role returns a ClusterRole with that name and the rules of [Report.Rights], as YAML to paste into
// a file. It grants them in all namespaces.
func (r *Report) Role(name string) string {
	manifest, err := yaml.Marshal(rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      r.Rights(),
	})
	if err != nil {
		panic(fmt.Sprintf("frameworktest: Role: %v", err)) // it consists of strings
	}
	return string(manifest)
}

// used returns the rights that were used. Requests of the leader election count as such.
func (r *Report) used() map[right]bool {
	all := map[right]bool{}
	for request := range r.rights {
		if request.Verb == "" || strings.HasSuffix(request.Group, "authorization.k8s.io") {
			continue // what everybody may ask
		}
		resource := request.Resource
		if request.Subresource != "" {
			resource += "/" + request.Subresource
		}
		all[right{request.Group, resource, request.Verb}] = true
		if request.Verb == "watch" {
			all[right{request.Group, resource, "list"}] = true
		}
	}
	return all
}

// CheckRights compares the Roles and ClusterRoles of a folder with the rights that were used. It
// fails the test for each right that was used and is not granted, and for each that is granted and
// was not used. An asterisk that grants more than what was used fails it, too. Namespaces and names
// of resources are not compared.
//
// It reads the files .yaml and .yml in the folder and below it. If there is a RoleBinding or a
// ClusterRoleBinding among them, only the roles count that a binding refers to: the others are for
// users. Without a binding, all roles count. Documents of other kinds are ignored.
//
// These rights may be granted without being used: to publish Kubernetes events, to elect a leader
// by leases, and to review tokens and access, which protects a metrics page.
//
// Rights show only where the story goes: one that is never used may be one that no story tells of.
func (r *Report) CheckRights(t testing.TB, folder string) {
	t.Helper()
	granted, err := grantedRights(folder)
	if err != nil {
		t.Errorf("frameworktest: CheckRights: %v", err)
		return
	}
	used := r.used()
	uses, grants := slices.SortedFunc(maps.Keys(used), compareRights), slices.SortedFunc(maps.Keys(granted), compareRights)
	missing := false
	for _, u := range uses {
		if !slices.ContainsFunc(grants, func(g right) bool { return g.covers(u) }) {
			t.Errorf("frameworktest: used and not granted in %s: %s", folder, u)
			missing = true
		}
	}
	if missing {
		defer t.Logf("frameworktest: Report.Role prints the whole ClusterRole")
	}
	if os.Getenv(OnlyVariable) != "" || testing.Short() {
		t.Logf("frameworktest: not all lives were lived, so nobody knows which rights are never used")
		return
	}
	for _, g := range grants {
		switch {
		case used[g] || g.isCommon():
		case slices.ContainsFunc(uses, g.covers):
			t.Errorf("frameworktest: granted in %s and wider than what is used: %s", folder, g)
		default:
			t.Errorf("frameworktest: granted in %s and never used: %s", folder, g)
		}
	}
}

// isCommon reports whether a right belongs to what surrounds the controllers of most operators:
// leader election, Kubernetes events, and the protection of metrics.
func (r right) isCommon() bool {
	switch r.resource {
	case "leases":
		return true
	case "events":
		return r.verb == "create" || r.verb == "patch"
	case "tokenreviews", "subjectaccessreviews":
		return r.verb == "create"
	}
	return false
}

// covers reports whether a right that is granted, which may have asterisks, contains one that is
// used.
func (r right) covers(used right) bool {
	of, sub, _ := strings.Cut(r.resource, "/")
	usedOf, usedSub, _ := strings.Cut(used.resource, "/")
	resource := r.resource == "*" || (of == "*" || of == usedOf) && sub == usedSub
	return resource && (r.group == "*" || r.group == used.group) && (r.verb == "*" || r.verb == used.verb)
}

func compareRights(a, b right) int { return strings.Compare(a.String(), b.String()) }

// grantedRights reads the roles of a folder.
func grantedRights(folder string) (map[right]bool, error) {
	roles, bound, err := readRoles(folder)
	if err != nil {
		return nil, err
	}
	all := map[right]bool{}
	for _, role := range roles {
		if len(bound) == 0 || bound[named{role.Kind, role.Name}] {
			for _, rule := range role.Rules {
				grant(all, rule)
			}
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case len(roles) > 0 && len(bound) > 0:
		return nil, fmt.Errorf("%s has bindings, and none of them refers to a role there", folder)
	}
	return nil, fmt.Errorf("%s has no roles", folder)
}

// named is a role by its kind and name.
type named struct{ kind, name string }

// readRoles reads the roles in the YAML files of a folder and those below it, and the roles that
// bindings there refer to.
func readRoles(folder string) (roles []rbacv1.ClusterRole, bound map[named]bool, err error) {
	bound = map[named]bool{}
	files := os.DirFS(folder)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if extension := path.Ext(name); err != nil || entry.IsDir() || extension != ".yaml" && extension != ".yml" {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := readDocuments(content, &roles, bound); err != nil {
			return fmt.Errorf("%s: %w", path.Join(folder, name), err)
		}
		return nil
	})
	return roles, bound, err
}

// readDocuments reads the roles of one file, and which roles are bound there.
func readDocuments(content []byte, roles *[]rbacv1.ClusterRole, bound map[named]bool) error {
	for documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		var o unstructured.Unstructured
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch o.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				return err
			}
			*roles = append(*roles, role)
		case "RoleBinding", "ClusterRoleBinding":
			kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			bound[named{kind, name}] = true
		}
	}
}

func grant(all map[right]bool, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[right{group, resource, verb}] = true
			}
		}
	}
}

// useOfOwners adds the rights that the admission plugin OwnerReferencesPermissionEnforcement asks
// the operator for: to delete an object that exists and whose owner references change, and to
// update the finalizers of owners whose deletion is blocked from now on. resources are the plurals
// by kind.
func useOfOwners(rights map[network.Request]bool, changes []change, resources map[string]string) {
	owners := map[types.UID][]metav1.OwnerReference{} // of each object ever
	for _, c := range changes {
		uid, now := c.object.GetUID(), c.object.GetOwnerReferences()
		before, existed := owners[uid]
		owners[uid] = now
		if !isOperators(c) || c.deleted {
			continue
		}
		if existed && !equality.Semantic.DeepEqual(before, now) {
			rights[network.Request{Verb: "delete", Group: c.object.GroupVersionKind().Group, Resource: c.resource}] = true
		}
		for _, owner := range now {
			if !blocks(owner) || slices.ContainsFunc(before, func(b metav1.OwnerReference) bool { return b.UID == owner.UID && blocks(b) }) {
				continue
			}
			group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
			if plural := resources[group+"/"+owner.Kind]; plural != "" {
				rights[network.Request{Verb: "update", Group: group, Resource: plural, Subresource: "finalizers"}] = true
			}
		}
	}
}

// blocks reports whether an owner's deletion is blocked.
func blocks(owner metav1.OwnerReference) bool {
	return owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion
}
