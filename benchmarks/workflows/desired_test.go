package workflows

import (
	"context"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = v1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
)

// What pages need, for both contenders.

func metadata(p *page, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + suffix, Labels: map[string]string{"app.kubernetes.io/instance": p.Name}}
}

func configMap(p *page) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metadata(p, ""), Data: map[string]string{"index.html": p.Spec.HTML}}
}

func secret(p *page) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metadata(p, ""), Data: map[string][]byte{"key": []byte(p.Name)}}
}

func serviceAccount(p *page) *corev1.ServiceAccount {
	mounts := false
	return &corev1.ServiceAccount{ObjectMeta: metadata(p, ""), AutomountServiceAccountToken: &mounts}
}

// service has no address: a test's API server has some 250 to give.
func service(p *page) *corev1.Service {
	return &corev1.Service{ObjectMeta: metadata(p, ""), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": p.Name + "-frontend"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

func deployment(tier string) func(p *page) *appsv1.Deployment {
	return func(p *page) *appsv1.Deployment {
		replicas, labels := int32(1), map[string]string{"app": p.Name + "-" + tier}
		return &appsv1.Deployment{ObjectMeta: metadata(p, "-"+tier), Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: tier, Image: "example.com/" + tier + ":1"}}},
			},
		}}
	}
}

// of is a dependent by a function of the primary.
func of[S framework.Object](name string, desired func(*page) S, dependsOn ...string) *dependent.Kubernetes[*page, S] {
	return &dependent.Kubernetes[*page, S]{
		Name: name, DependsOn: dependsOn,
		Desired: func(_ context.Context, p *page, _ *pageContext) (S, error) { return desired(p), nil },
	}
}

// five are independent of each other.
func five() []framework.Dependent[*page] {
	return []framework.Dependent[*page]{
		of("config", configMap), of("secret", secret), of("account", serviceAccount), of("service", service), of("deployment", deployment("frontend")),
	}
}

// edits are what somebody else does to one field of each of the five.
var edits = []struct {
	object func(p *page) framework.Object
	patch  string
}{
	{func(p *page) framework.Object { return configMap(p) }, `{"data":{"index.html":"defaced"}}`},
	{func(p *page) framework.Object { return secret(p) }, `{"data":{"key":"eA=="}}`},
	{func(p *page) framework.Object { return serviceAccount(p) }, `{"automountServiceAccountToken":true}`},
	{func(p *page) framework.Object { return service(p) }, `{"spec":{"selector":{"app":"other"}}}`},
	{func(p *page) framework.Object { return deployment("frontend")(p) }, `{"spec":{"replicas":7}}`},
}

// tiers are the Deployments of the chain, in order.
var tiers = []string{"database", "backend", "frontend"}

// chain is a ConfigMap, the tiers one after the other, and a Service.
func chain() []framework.Dependent[*page] {
	nodes, before := []framework.Dependent[*page]{of("config", configMap)}, "config"
	shared := &framework.Secondary[*appsv1.Deployment]{Name: "deployments"}
	for _, tier := range tiers {
		d := of(tier, deployment(tier), before)
		d.From, d.Ready = shared, ready.Deployment
		nodes, before = append(nodes, d), tier
	}
	return append(nodes, of("service", service, before))
}

func isReady(p *page) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == conditions.Ready && c.Status == metav1.ConditionTrue {
			return c.ObservedGeneration == p.Generation
		}
	}
	return false
}

// kindOf is the kind of a typed object.
func kindOf(o framework.Object) string { return reflect.TypeOf(o).Elem().Name() }
