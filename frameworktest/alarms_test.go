package frameworktest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
)

// applied is a correct operator that applies one object for each site.
func applied[T framework.Object](secondary framework.SecondarySource, desired func(site *Site) T) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			_, err := framework.Apply(ctx, c, desired(site), framework.OwnedByPrimary())
			return noUpdate, err
		}), siteOptions{Secondaries: framework.Secondaries(secondary)})
	}
}

// ownName is an operator that makes names up by itself, as before generateName, and writes the name
// down before it uses it.
func ownName(op *framework.Operator, _ *frameworktest.Process) error {
	owned := &configMaps{}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.ID == "" {
			site.Status.ID = site.Name + "-" + utilrand.String(5)
			return framework.PatchStatus(site).Reschedule(), nil
		}
		_, err := framework.Apply(ctx, c, named(site, site.Status.ID, site.Spec.Text), framework.OwnedByPrimary())
		return noUpdate, err
	}), siteOptions{Secondaries: framework.Secondaries(owned)})
}

// A Secret with an address in it, as each operator of a database makes one.
func TestNoFalseAlarmAddressInASecret(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(applied(&framework.Secondary[*corev1.Secret]{}, func(site *Site) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}, Data: map[string][]byte{
			"url": []byte("postgres://" + site.Name + "." + site.Namespace + ".svc:5432"),
		}}
	}), changes)
	frameworktest.Everywhere(t, s.Random(20))
}

// A Job that gets its namespace as an argument, as the subject of a RoleBinding gets it.
func TestNoFalseAlarmNamespaceAlone(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(applied(&configMaps{}, func(site *Site) *corev1.ConfigMap {
		return named(site, site.Name, "namespace: "+site.Namespace+"\n")
	}), changes)
	frameworktest.Everywhere(t, s.Random(20))
}

// An object of cluster scope for each site.
func TestNoFalseAlarmSecondariesOfClusterScope(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		api := dynamic.NewForConfigOrDie(p.Config()).Resource(schema.GroupVersionResource{Group: "kit.test", Version: "v1", Resource: "tenants"})
		return framework.Register(op, cleaning{
			reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
				_, err := api.Create(ctx, untyped("kit.test/v1", "Tenant", site.Namespace+"-"+site.Name), metav1.CreateOptions{})
				return noUpdate, client.IgnoreAlreadyExists(err)
			},
			cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
				return framework.RemoveFinalizer(), client.IgnoreNotFound(api.Delete(ctx, site.Namespace+"-"+site.Name, metav1.DeleteOptions{}))
			},
		}, siteOptions{})
	}, changes)
	s.CRDs = "testdata,testdata/kinds"
	frameworktest.Everywhere(t, s.Random(20))
}

// A primary of cluster scope.
func TestNoFalseAlarmPrimaryOfClusterScope(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	kind := untyped("kit.test/v1", "Tenant", "").GroupVersionKind()
	s := frameworktest.Scenario{
		CRDs: "testdata/kinds", Scheme: fullScheme,
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			return framework.Register(op, doing[anyObject](func(ctx context.Context, o anyObject, _ *framework.Context[anyObject]) (framework.UpdateControl[anyObject], error) {
				_, err := bare(p).CoreV1().ConfigMaps("kube-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}}, metav1.CreateOptions{})
				return framework.NoUpdate[anyObject](), client.IgnoreAlreadyExists(err)
			}), framework.ControllerOptions[anyObject]{GroupVersionKind: kind})
		},
		Story: func(w *frameworktest.World) {
			w.Create(untyped("kit.test/v1", "Tenant", "hello"))
			w.Rest()
		},
	}
	frameworktest.Everywhere(t, s.Random(20))
}

// Mask is no way out: names are compared before it.
func TestNoFalseAlarmOwnRandomSuffixMasked(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(ownName, changes)
	s.Mask = func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "status", "id")
		if strings.HasPrefix(o.GetName(), "hello-") {
			o.SetName("hello-*")
		}
	}
	frameworktest.Everywhere(t, s)
}

// A ConfigMap that lists generated objects by their names.
func TestNoFalseAlarmGeneratedNamesAsKeys(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			all, err := owned.List(c)
			if err != nil {
				return noUpdate, err
			}
			all = slices.DeleteFunc(all, func(o *corev1.ConfigMap) bool { return o.Name == "index" })
			if len(all) == 0 {
				made, err := framework.Create(ctx, c, generated(site), framework.OwnedByPrimary())
				if err != nil {
					return noUpdate, err
				}
				all = append(all, made)
			}
			index := named(site, "index", "")
			for _, o := range all {
				index.Data[o.Name] = "ready"
			}
			_, err = framework.Apply(ctx, c, index, framework.OwnedByPrimary())
			return noUpdate, err
		}), siteOptions{Secondaries: framework.Secondaries(owned)})
	}, appears)
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

// The usual annotation that restarts Pods when their configuration changes.
func TestNoFalseAlarmVersionInAnAnnotation(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		deployments := &framework.Secondary[*appsv1.Deployment]{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			config, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
			if err != nil {
				return noUpdate, err
			}
			d := deploymentOf(site.Namespace, site.Name)
			d.Spec.Template.Annotations = map[string]string{"config-version": config.ResourceVersion}
			_, err = framework.Apply(ctx, c, d, framework.OwnedByPrimary())
			return noUpdate, err
		}), siteOptions{Secondaries: framework.Secondaries(owned, deployments)})
	}, changes)
	frameworktest.Everywhere(t, s)
}

// It looks by a dry run whether something is to do, as GitOps controllers do.
func TestNoFalseAlarmDryRuns(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	frameworktest.Everywhere(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().ConfigMaps(site.Namespace)
			desired := corev1apply.ConfigMap(site.Name, site.Namespace).WithData(map[string]string{"text": site.Spec.Text})
			present, err := api.Get(ctx, site.Name, metav1.GetOptions{})
			if client.IgnoreNotFound(err) != nil {
				return noUpdate, err
			}
			would, err := api.Apply(ctx, desired, metav1.ApplyOptions{FieldManager: "kit", Force: true, DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return noUpdate, err
			}
			if would.Data["text"] != present.Data["text"] {
				_, err = api.Apply(ctx, desired, metav1.ApplyOptions{FieldManager: "kit", Force: true})
			}
			return noUpdate.RescheduleAfter(30 * time.Minute), err
		}), siteOptions{})
	}, changes))
}

// It is patient: after a failure it waits half an hour, because its cloud is slow.
func TestNoFalseAlarmPatientRetries(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	frameworktest.Everywhere(t, ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
			return noUpdate, err
		}), siteOptions{Secondaries: framework.Secondaries(owned), Retry: retry.Policy{Initial: 30 * time.Minute, Max: 30 * time.Minute}})
	}, changes))
}

// A load balancer, and a name for it: the ID of the one is in the other.
func TestNoFalseAlarmExternalChain(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		balancers, names := bookings{p.External("lb")}, bookings{p.External("dns")}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			lb, err := balancers.ensure(ctx, site)
			if err != nil {
				return noUpdate, err
			}
			found, err := names.List(ctx, nameOf(site))
			if err == nil && len(found) == 0 {
				_, err = names.Create(ctx, nameOf(site), lb.ID)
			}
			return noUpdate, err
		}), siteOptions{})
	}, appears)
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

// Names that follow from a UID: its first eight digits, or all of it.
func TestNoFalseAlarmNamesOfUIDs(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	for name, of := range map[string]func(site *Site) string{
		"eight digits": func(site *Site) string { return site.Name + "-" + string(site.UID)[:8] },
		"all digits":   func(site *Site) string { return "pvc-" + string(site.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			s := ofSites(applied(&configMaps{}, func(site *Site) *corev1.ConfigMap { return named(site, of(site), site.Spec.Text) }), changes)
			frameworktest.Everywhere(t, s.Random(20))
		})
	}
}

// The status names the Pods of a Deployment, as that of many operators does.
func TestNoFalseAlarmPodsInTheStatus(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		deployments := &framework.Secondary[*appsv1.Deployment]{}
		pods := &framework.Secondary[*corev1.Pod]{Map: func(o *corev1.Pod) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: o.Namespace, Name: o.Labels["app"]}}
		}}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			d := deploymentOf(site.Namespace, site.Name)
			d.Spec.Template.Annotations = map[string]string{"text": site.Spec.Text}
			_, err := framework.Apply(ctx, c, d, framework.OwnedByPrimary())
			if err != nil {
				return noUpdate, err
			}
			all, err := pods.List(c)
			if err != nil {
				return noUpdate, err
			}
			var names []string
			for _, o := range all {
				names = append(names, o.Name)
			}
			slices.Sort(names)
			site.Status.Text = strings.Join(names, ",")
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(deployments, pods)})
	}, changes)
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

// A Deployment without a name of its own: its conditions name the ReplicaSet, whose name begins with
// what was generated.
func TestNoFalseAlarmGeneratedDeployment(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &framework.Secondary[*appsv1.Deployment]{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			d := deploymentOf(site.Namespace, "")
			d.GenerateName, d.Spec.Selector.MatchLabels["app"] = site.Name+"-", site.Name
			d.Spec.Template.Annotations = map[string]string{"text": site.Spec.Text}
			there, err := owned.Get(c)
			switch {
			case err != nil:
				return noUpdate, err
			case there == nil:
				there, err = framework.Create(ctx, c, d, framework.OwnedByPrimary())
			case there.Spec.Template.Annotations["text"] != site.Spec.Text:
				there = there.DeepCopy()
				there.Spec.Template.Annotations = d.Spec.Template.Annotations
				there, err = framework.Update(ctx, c, there)
			}
			if err != nil {
				return noUpdate, err
			}
			site.Status.ID = there.Name
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(owned)})
	}, changes)
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

// Unique names of namespaces, remembered by a label that is looked for.
func TestNoFalseAlarmNamespaceInTheStatus(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().Namespaces()
			mine := map[string]string{"of": site.Namespace + "." + site.Name}
			all, err := api.List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: mine})})
			if err != nil {
				return noUpdate, err
			}
			if len(all.Items) == 0 {
				made, err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: site.Name + "-", Labels: mine}}, metav1.CreateOptions{})
				if err != nil {
					return noUpdate, err
				}
				all.Items = append(all.Items, *made)
			}
			site.Status.ID = all.Items[0].Name
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}, appears)
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

// A Deployment that says in its template where something is.
func TestNoFalseAlarmNamespaceInATemplate(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(applied(&framework.Secondary[*appsv1.Deployment]{}, func(site *Site) *appsv1.Deployment {
		d := deploymentOf(site.Namespace, site.Name)
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "URL", Value: "http://" + site.Name + "." + site.Namespace + ".svc"}}
		return d
	}), appears)
	frameworktest.Everywhere(t, s.Random(20))
}

// Users delete a site, and create it again.
func TestNoFalseAlarmCreatedAgain(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(hasAFinalizer, func(w *frameworktest.World) {
		disappears(w)
		w.Create(newSite("hello", "hi"))
		w.Rest()
	})
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}
