package apimodel

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

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
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		}
		list.APIResources = append(list.APIResources, found)
		if r.Status {
			found.Name, found.SingularName, found.Verbs = r.Plural+"/status", "", metav1.Verbs{"get", "patch", "update"}
			list.APIResources = append(list.APIResources, found)
		}
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
