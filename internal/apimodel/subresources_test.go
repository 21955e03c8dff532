package apimodel_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

const (
	below       = "/api/v1/namespaces/default"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	deployment  = `{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b","c":"d"}},"template":{"metadata":{"labels":{"a":"b","c":"d"}},"spec":{"containers":[{"name":"c","image":"nginx:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}]}}}}`
)

func likeTheServer(t *testing.T, requests []exchange) {
	t.Helper()
	replayAll(t, bothWorlds(t, apimodel.Options{Namespaces: true, Defaults: true}), requests)
}

func TestScaleIsAsOnTheServer(t *testing.T) {
	scale := deployments + "/d/scale"
	likeTheServer(t, []exchange{
		{"GET", scale, "", ``},
		{"POST", deployments, "", deployment},
		{"GET", scale, "", ``},
		{"PUT", scale, "", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":3}}`},
		{"GET", deployments + "/d", "", ``},
		{"PUT", scale, "", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":3}}`},
		{"PUT", scale, "", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"e","namespace":"default"},"spec":{"replicas":3}}`},
		{"PUT", scale, "", `{"metadata":{"name":"d","namespace":"default","resourceVersion":"1"},"spec":{"replicas":4}}`},
		{"PUT", scale, "", `{"metadata":{"name":"d","namespace":"default","uid":"1"},"spec":{"replicas":4}}`},
		{"PUT", scale, "", `{"metadata":{"name":"d","namespace":"default"},"spec":{"replicas":-1}}`},
		{"PATCH", scale, "merge", `{"spec":{"replicas":5}}`},
		{"PATCH", scale, "json", `[{"op":"replace","path":"/spec/replicas","value":6}]`},
		{"PATCH", scale, "strategic", `{"spec":{"replicas":0}}`},
		{"GET", scale, "", ``},
		{"GET", deployments + "/d", "", ``},
		{"PATCH", scale + "?fieldManager=m&force=true", "apply", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":7}}`},
		{"GET", deployments + "/d", "", ``},
		{"PATCH", scale + "?fieldManager=n", "apply", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":8}}`},
		{"PATCH", scale + "?dryRun=All", "merge", `{"spec":{"replicas":5}}`},
		{"DELETE", scale, "", ``},
		{"GET", deployments + "/d", "", ``},
		{"GET", below + "/configmaps/x/scale", "", ``},
	})
}

func TestEvictionAndBindingAreAsOnTheServer(t *testing.T) {
	pods := below + "/pods"
	likeTheServer(t, []exchange{
		{"POST", pods, "", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`},
		{"POST", pods + "/a/binding", "", `{"metadata":{"name":"b"},"target":{"kind":"Node","name":"node"}}`},
		{"POST", pods + "/b/binding", "", `{"metadata":{"name":"b"},"target":{"kind":"Node","name":"node"}}`},
		{"POST", pods + "/a/binding", "", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"node"}}`},
		{"GET", pods + "/a", "", ``},
		{"POST", pods + "/a/binding", "", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"other"}}`},
		{"GET", pods + "/a/eviction", "", ``},
		{"POST", pods + "/a/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b"}}`},
		{"POST", pods + "/b/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b"}}`},
		{"POST", pods + "/a/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"x"}}}`},
		{"POST", pods + "/a/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":7}}`},
		{"GET", pods + "/a", "", ``},
		{"POST", pods + "/a/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":0}}`},
		{"GET", pods + "/a", "", ``},
		{"POST", pods, "", `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`},
		{"POST", pods + "/c/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"c"}}`},
		{"GET", pods + "/c", "", ``},
	})
}

func TestStrategicMergePatchesAreAsOnTheServer(t *testing.T) {
	likeTheServer(t, []exchange{
		{"POST", deployments, "", deployment},
		{"PATCH", deployments + "/d", "strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"3"},{"name":"C","value":"4"}]},{"name":"e","image":"nginx:2"}]}}}}`},
		{"PATCH", deployments + "/d", "strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}}}`},
		{"PATCH", deployments + "/d", "strategic", `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`},
		{"PATCH", deployments + "/d", "strategic", `{"metadata":{"finalizers":["x/a","x/b"]}}`},
		{"PATCH", deployments + "/d", "strategic", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}}`},
		{"PATCH", deployments + "/d/status", "strategic", `{"status":{"replicas":3,"observedGeneration":1}}`},
		{"PATCH", deployments + "/d/status", "strategic", `{"metadata":{"labels":{"x":"y"},"annotations":{"x":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]}}`},
		{"PATCH", deployments + "/d", "strategic", `{"spec":{"replicas":"x"}}`},
		{"PATCH", deployments + "/d", "strategic", `{`},
		{"PATCH", deployments + "/d", "strategic", `{"metadata":{"$patch":"unknown"}}`},
		{"PATCH", deployments + "/e", "strategic", `{}`},
		{"PATCH", webPages + "/nothing", "strategic", `{}`},
		{"GET", deployments + "/d", "", ``},
	})
}

func TestDeletingACollectionIsAsOnTheServer(t *testing.T) {
	maps := below + "/configmaps"
	likeTheServer(t, []exchange{
		{"POST", maps, "", `{"metadata":{"name":"a","labels":{"x":"1"}}}`},
		{"POST", maps, "", `{"metadata":{"name":"b","labels":{"x":"1"},"finalizers":["x/y"]}}`},
		{"POST", maps, "", `{"metadata":{"name":"c","labels":{"x":"2"}}}`},
		{"DELETE", maps + "?labelSelector=x%3D1&dryRun=All", "", ``},
		{"DELETE", maps + "?labelSelector=x%3D3", "", ``},
		{"DELETE", maps + "?labelSelector=x%3D1", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`},
		{"GET", maps + "/a", "", ``},
		{"GET", maps + "/b", "", ``},
		{"GET", maps + "/c", "", ``},
		{"DELETE", maps + "?fieldSelector=metadata.name%3Dc", "", ``},
		{"GET", maps + "/c", "", ``},
		{"DELETE", "/api/v1/configmaps", "", ``},
		{"DELETE", "/api/v1/namespaces", "", ``},
	})
}
