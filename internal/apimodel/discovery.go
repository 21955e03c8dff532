package apimodel

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// served holds the kinds that are served. It does not change.
type served map[schema.GroupVersionResource]*resource

// discover answers what clients ask to learn what is served. The aggregated form is not offered;
// clients fall back to this one.
func (s served) discover(path string) (int, any, error) {
	path = strings.Trim(path, "/")
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/"))
	switch {
	case path == "version":
		return http.StatusOK, version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}, nil
	case path == "api":
		return http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case path == "apis":
		return http.StatusOK, s.groups(), nil
	case err == nil && strings.Contains(path, "/"):
		if list := s.resourcesOf(gv); len(list.APIResources) > 0 {
			return http.StatusOK, list, nil
		}
	}
	return 0, nil, noSuchPage(path)
}

func (s served) groups() metav1.APIGroupList {
	versions := map[string][]string{}
	for gvr := range s {
		if gvr.Group != "" && !slices.Contains(versions[gvr.Group], gvr.Version) {
			versions[gvr.Group] = append(versions[gvr.Group], gvr.Version)
		}
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for name, of := range versions {
		group := metav1.APIGroup{Name: name}
		for _, v := range slices.Sorted(slices.Values(of)) {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
				GroupVersion: schema.GroupVersion{Group: name, Version: v}.String(), Version: v,
			})
		}
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, group)
	}
	slices.SortFunc(list.Groups, func(a, b metav1.APIGroup) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (s served) resourcesOf(gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for gvr, r := range s {
		if gvr.GroupVersion() != gv {
			continue
		}
		found := metav1.APIResource{
			Name: r.Plural, SingularName: strings.ToLower(r.Kind.Kind), Kind: r.Kind.Kind, Namespaced: !r.ClusterScoped,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		if r.GroupVersionKind == namespaceKind {
			found.Verbs = slices.DeleteFunc(found.Verbs, func(v string) bool { return v == "deletecollection" })
		}
		list.APIResources = append(list.APIResources, found)
		list.APIResources = append(list.APIResources, r.subresources(found)...)
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// subresources describes those of a resource, of which the description is given.
func (r *resource) subresources(of metav1.APIResource) (all []metav1.APIResource) {
	of.SingularName = ""
	add := func(name string, kind schema.GroupVersionKind, verbs ...string) {
		if r.serves(name) {
			sub := of
			sub.Name, sub.Verbs = r.Plural+"/"+name, verbs
			if kind != r.GroupVersionKind {
				sub.Group, sub.Version, sub.Kind = kind.Group, kind.Version, kind.Kind
			}
			all = append(all, sub)
		}
	}
	add("status", r.GroupVersionKind, "get", "patch", "update")
	add("scale", scaleKind, "get", "patch", "update")
	add("finalize", r.GroupVersionKind, "update")
	add("binding", corev1.SchemeGroupVersion.WithKind("Binding"), "create")
	add("eviction", policyv1.SchemeGroupVersion.WithKind("Eviction"), "create")
	return all
}
