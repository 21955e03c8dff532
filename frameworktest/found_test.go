package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// doing is a reconciler of any kind that is a function.
type doing[P framework.Object] func(ctx context.Context, o P, c *framework.Context[P]) (framework.UpdateControl[P], error)

func (f doing[P]) Reconcile(ctx context.Context, o P, c *framework.Context[P]) (framework.UpdateControl[P], error) {
	return f(ctx, o, c)
}

func ofSites(o operator, story func(w *frameworktest.World)) frameworktest.Scenario {
	return frameworktest.Scenario{CRDs: "testdata", Scheme: fullScheme, RegisterWith: o, Story: story}
}

func wantFound(t *testing.T, s frameworktest.Scenario) {
	t.Helper()
	report := s.Explore(t)
	if len(report.Failed()) == 0 {
		t.Errorf("the flaw is not found; the writes without a fault: %v", report.Writes())
		return
	}
	t.Logf("found by %v: %v", report.Failed(), report.Failures(report.Failed()[0]))
}

func untyped(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetName(name)
	return o
}

type anyObject = *unstructured.Unstructured

// A careless operator whose primary is a Deployment: what it creates twice is owned by a Deployment.
func TestFindsCarelessWithADeployment(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	type deployment = *appsv1.Deployment
	app := deploymentOf("", "app")
	wantFound(t, frameworktest.Scenario{
		Register: func(op *framework.Operator) error {
			return framework.Register(op, doing[deployment](func(ctx context.Context, d deployment, c *framework.Context[deployment]) (framework.UpdateControl[deployment], error) {
				if d.Annotations["config"] == "" {
					o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: d.Name + "-"}, Data: map[string]string{"a": "b"}}
					if _, err := framework.Create(ctx, c, o, framework.OwnedByPrimary()); err != nil {
						return framework.NoUpdate[deployment](), err
					}
					d.Annotations = map[string]string{"config": "created"}
				}
				return framework.PatchResource(d), nil
			}), framework.ControllerOptions[deployment]{})
		},
		Story: func(w *frameworktest.World) { w.Create(app); w.Rest() },
	})
}

// A tenant operator that forgets which namespace it has created.
func TestFindsCarelessWithNamespaces(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.ID == "" {
				_, err := bare(p).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: site.Name + "-"}}, metav1.CreateOptions{})
				if err != nil {
					return noUpdate, err
				}
				site.Status.ID = "created"
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}, appears))
}

// A tenant operator that says that it has protected its namespace before it does.
func TestFindsLabelOfANamespaceIsLost(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().Namespaces()
			_, err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-" + site.Name}}, metav1.CreateOptions{})
			switch {
			case apierrors.IsAlreadyExists(err):
				return noUpdate, nil // it is done
			case err != nil:
				return noUpdate, err
			}
			_, err = api.Patch(ctx, "team-"+site.Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
			return noUpdate, err
		}), siteOptions{})
	}, appears))
}

// stamped writes the time of each run.
func stamped(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(_ context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
		site.Status.Checked = time.Now().UTC().Format(time.RFC3339)
		return framework.PatchStatus(site), nil
	}), siteOptions{})
}

// unchecked hides the time of the last run.
func unchecked(o anyObject) { unstructured.RemoveNestedField(o.Object, "status", "checked") }

// Each start of the operator writes to all primaries: the status has the time of the last run.
func TestFindsClockInTheStatus(t *testing.T) {
	t.Parallel()
	s := ofSites(stamped, appears)
	if found := kinds(s.Explore(t).Failed()); found != "restart" {
		t.Errorf("found by %q, not by restarts alone", found)
	}
	s.Mask = unchecked
	frameworktest.Everywhere(t, s)
}

// Every deletion comes to its end, but that of a namespace with a finalizer that nobody removes.
func TestFindsNamespaceStaysInDeletion(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		api := bare(p).CoreV1().Namespaces()
		return framework.Register(op, cleaning{
			reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
				_, err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-" + site.Name, Finalizers: []string{"kit.test/mine"}}}, metav1.CreateOptions{})
				return noUpdate, client.IgnoreAlreadyExists(err)
			},
			cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
				err := api.Delete(ctx, "team-"+site.Name, metav1.DeleteOptions{})
				return framework.RemoveFinalizer(), client.IgnoreNotFound(err)
			},
		}, siteOptions{})
	}, disappears))
}

// A labeller of nodes that says first that it is done.
func TestFindsLabelOfANodeIsLost(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	type node = *corev1.Node
	wantFound(t, frameworktest.Scenario{
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			return framework.Register(op, doing[node](func(ctx context.Context, n node, _ *framework.Context[node]) (framework.UpdateControl[node], error) {
				if n.Annotations["done"] != "" {
					return framework.NoUpdate[node](), nil
				}
				for _, patch := range []string{`{"metadata":{"annotations":{"done":"yes"}}}`, `{"metadata":{"labels":{"gpu":"yes"}}}`} {
					if _, err := bare(p).CoreV1().Nodes().Patch(ctx, n.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
						return framework.NoUpdate[node](), err
					}
				}
				return framework.NoUpdate[node](), nil
			}), framework.ControllerOptions[node]{AllGenerations: true})
		},
		Story: func(w *frameworktest.World) {
			w.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
			w.Rest()
		},
	})
}

// A Service of another group has a Service of the core with its name. It is deleted when the
// operator hears that its primary is gone, and by nobody if the operator is down then.
func TestFindsLeakOfTheSamePlural(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	kind := schema.FromAPIVersionAndKind("serving.test/v1", "Service")
	wantFound(t, frameworktest.Scenario{
		CRDs: "testdata/kinds",
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			return framework.Register(op, doing[anyObject](func(ctx context.Context, o anyObject, c *framework.Context[anyObject]) (framework.UpdateControl[anyObject], error) {
				api := bare(p).CoreV1().Services(o.GetNamespace())
				if c.Gone() {
					err := api.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
					return framework.NoUpdate[anyObject](), client.IgnoreNotFound(err)
				}
				_, err := api.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
				return framework.NoUpdate[anyObject](), client.IgnoreAlreadyExists(err)
			}), framework.ControllerOptions[anyObject]{GroupVersionKind: kind, AllEvents: true})
		},
		Story: func(w *frameworktest.World) {
			o := untyped("serving.test/v1", "Service", "hello")
			w.Create(o)
			w.Rest()
			w.Delete(o)
			w.Rest()
		},
	})
}

// An IPAM operator whose kind is a Lease, of its own group, and which forgets what it has created.
func TestFindsCarelessWithLeasesOfAnotherGroup(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, frameworktest.Scenario{
		CRDs: "testdata,testdata/kinds", Scheme: fullScheme, Story: appears,
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			api := dynamic.NewForConfigOrDie(p.Config()).Resource(schema.GroupVersionResource{Group: "ipam.test", Version: "v1", Resource: "leases"})
			return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
				if site.Status.ID == "" {
					o := untyped("ipam.test/v1", "Lease", "")
					o.SetGenerateName("ip-")
					if _, err := api.Namespace(site.Namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
						return noUpdate, err
					}
					site.Status.ID = "created"
				}
				return framework.PatchStatus(site), nil
			}), siteOptions{})
		},
	})
}

// The scheme has no ConfigMaps, because the operator uses a client of its own for them.
func TestFindsAlwaysOfATypeThatTheSchemeLacks(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Group: "test.evenkeel.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, version)
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			for i := range 2 {
				_, err := bare(p).CoreV1().ConfigMaps(site.Namespace).Create(ctx, named(site, fmt.Sprintf("%s-%d", site.Name, i), ""), metav1.CreateOptions{})
				if client.IgnoreAlreadyExists(err) != nil {
					return noUpdate, err
				}
			}
			return noUpdate, nil
		}), siteOptions{})
	}, appears)
	s.Scheme, s.Always = scheme, frameworktest.AtMost[*corev1.ConfigMap](1)
	wantFound(t, s)
}

// It adds two steps to a Pod template one after the other, and goes on if one fails: then they are
// in the wrong order.
func TestFindsStepsInTheWrongOrder(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).AppsV1().Deployments(site.Namespace)
			d, err := api.Get(ctx, site.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				d, err = api.Create(ctx, deploymentOf("", site.Name), metav1.CreateOptions{})
			}
			if err != nil {
				return noUpdate, err
			}
			var errs []error
			for _, step := range []string{"migrate", "seed"} {
				there := false
				for _, c := range d.Spec.Template.Spec.InitContainers {
					there = there || c.Name == step
				}
				if there {
					continue
				}
				next := d.DeepCopy()
				next.Spec.Template.Spec.InitContainers = append(next.Spec.Template.Spec.InitContainers, corev1.Container{Name: step, Image: step})
				if updated, err := api.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
					errs = append(errs, err)
				} else {
					d = updated
				}
			}
			return noUpdate, errors.Join(errs...)
		}), siteOptions{})
	}, appears)
	s.Cluster = frameworktest.Bare
	wantFound(t, s)
}

// It keeps a ConfigMap for each text that there was, and says in the status which one is the
// current: not if it died between.
func TestFindsStatusNamesTheOldOfTwoGeneratedObjects(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			all, err := owned.List(c)
			if err != nil {
				return noUpdate, err
			}
			known := false // that of the status
			for _, o := range all {
				known = known || o.Name == site.Status.ID
			}
			for _, o := range all {
				if o.Data["text"] == site.Spec.Text && known {
					return noUpdate, nil // nothing to do
				} else if o.Data["text"] == site.Spec.Text {
					site.Status.ID = o.Name
					return framework.PatchStatus(site), nil
				}
			}
			made, err := framework.Create(ctx, c, generated(site), framework.OwnedByPrimary())
			if err != nil {
				return noUpdate, err
			}
			site.Status.ID = made.Name
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(owned)})
	}, changes))
}

// It creates a Service, and then sets the port that users open in their firewall: not if it died
// between.
func TestFindsNodePortIsLost(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().Services(site.Namespace)
			if _, err := api.Get(ctx, site.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return noUpdate, err
			}
			made, err := api.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: site.Name}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}},
			}}, metav1.CreateOptions{})
			if err != nil {
				return noUpdate, err
			}
			made.Spec.Ports[0].NodePort = 30080
			_, err = api.Update(ctx, made, metav1.UpdateOptions{})
			return noUpdate, err
		}), siteOptions{})
	}, appears))
}

// A careless operator of each of the kinds that operators make all the time.
func TestFindsCarelessWithOtherKinds(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	for _, o := range []anyObject{
		untyped("batch/v1", "CronJob", ""), untyped("rbac.authorization.k8s.io/v1", "RoleBinding", ""), untyped("policy/v1", "PodDisruptionBudget", ""),
		untyped("autoscaling/v2", "HorizontalPodAutoscaler", ""), untyped("networking.k8s.io/v1", "NetworkPolicy", ""), untyped("example.com/v1", "Certificate", ""),
	} {
		t.Run(o.GetKind(), func(t *testing.T) {
			wantFound(t, ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
				owned := &framework.Secondary[anyObject]{GroupVersionKind: o.GroupVersionKind()}
				return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
					if site.Status.ID == "" {
						o := o.DeepCopy()
						o.SetGenerateName(site.Name + "-")
						o.SetNamespace(site.Namespace)
						if _, err := framework.Create(ctx, c, o, framework.OwnedByPrimary()); err != nil {
							return noUpdate, err
						}
						site.Status.ID = "created"
					}
					return framework.PatchStatus(site), nil
				}), siteOptions{Secondaries: framework.Secondaries(owned)})
			}, appears))
		})
	}
}

// The same, beside a controller that works.
func TestFindsOneOfTwoControllersNeverRuns(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		if err := looksFirst(op, p); err != nil {
			return err
		}
		budgets := &framework.Secondary[anyObject]{GroupVersionKind: untyped("policy/v1", "PodDisruptionBudget", "").GroupVersionKind()}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			_, err := framework.Create(ctx, c, generated(site), framework.OwnedByPrimary()) // one for each run
			return noUpdate, err
		}), siteOptions{Name: "budgets", Finalizer: "kit.test/budgets", Secondaries: framework.Secondaries(budgets)})
	}, changes))
}

// Users create a ConfigMap, and then a site that refers to it. Watches of two kinds are not in
// order: an operator that sees the site first must not give up.
func TestFindsGivesUpOnAReference(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		all := &configMaps{}
		return framework.Register(op, reconcile(func(_ context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			if site.Status.Text != "" {
				return noUpdate, nil
			}
			shared, err := all.GetNamed(c, site.Namespace, "shared")
			switch {
			case err != nil:
				return noUpdate, err
			case shared == nil:
				site.Status.Text = "failed: there is no ConfigMap shared"
			default:
				site.Status.Text = shared.Data["text"]
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(all)})
	}, func(w *frameworktest.World) {
		w.Proceed(2 * time.Second)
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"text": "hi"}})
		w.Create(newSite("hello", "hi"))
		w.Rest()
	}))
}

// It looks, works for five minutes without looking at its ctx, and creates: after another process
// has taken over, both do.
func TestFindsWorksOnAfterItLostTheLease(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		cloud := p.External("cloud")
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.Text == "" {
				site.Status.Text = "working"
				return framework.PatchStatus(site).Reschedule(), nil
			}
			found, err := cloud.List(ctx, nameOf(site))
			if err != nil || len(found) > 0 {
				return noUpdate, err
			}
			time.Sleep(5 * time.Minute)
			_, err = cloud.Create(context.Background(), nameOf(site), "")
			return noUpdate, err
		}), siteOptions{})
	}, func(w *frameworktest.World) {
		w.Create(newSite("hello", "hi"))
		w.Proceed(time.Minute)
		w.Create(newSite("other", "hi"))
		w.Rest()
	}))
}

// It gives each site the number after the highest, which it asks the API server for, in runs that
// are concurrent.
func TestFindsNumbersInConcurrentRuns(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(_ context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.Number == 0 {
				all, err := sites(p)
				if err != nil {
					return noUpdate, err
				}
				for i := range all {
					site.Status.Number = max(site.Status.Number, all[i].Status.Number)
				}
				site.Status.Number++
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}, func(w *frameworktest.World) {
		w.Proceed(2 * time.Second)
		w.Create(newSite("hello", "hi"))
		w.Create(newSite("other", "hi"))
		w.Rest()
	})
	s.End = func(w *frameworktest.World) {
		seen := map[int64]bool{}
		for _, site := range frameworktest.List[*Site](w) {
			if seen[site.Status.Number] {
				w.Errorf("two have the number %d", site.Status.Number)
			}
			seen[site.Status.Number] = true
		}
	}
	wantFound(t, s)
}

// Only the watch of one kind is late: a site that was seen refers to a ConfigMap that was not.
// It holds the reference for broken for ever.
func TestFindsOneWatchIsLate(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, _ *frameworktest.Process) error {
		all := &configMaps{Map: func(o *corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: o.Namespace, Name: "hello"}}
		}}
		return framework.Register(op, reconcile(func(_ context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			if site.Status.Text == "failed" || site.Spec.Text == "" {
				return noUpdate, nil
			}
			shared, err := all.GetNamed(c, site.Namespace, site.Spec.Text)
			if err != nil {
				return noUpdate, err
			}
			site.Status.Text = "failed"
			if shared != nil {
				site.Status.Text = shared.Data["text"]
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(all)})
	}, func(w *frameworktest.World) {
		w.Proceed(2 * time.Second)
		w.Create(newSite("hello", ""))
		w.Rest()
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"text": "hi"}})
		w.Proceed(time.Second)
		w.Merge(newSite("hello", ""), `{"spec":{"text":"shared"}}`)
		w.Rest()
	}))
}

// A request that is never answered keeps an operator without a timeout from ever going on.
func TestFindsFailedReadOfTheServer(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	wantFound(t, ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().ConfigMaps(site.Namespace)
			// Any failure is taken for absence, and the object is made anew.
			if _, err := api.Get(ctx, site.Name, metav1.GetOptions{}); err != nil {
				if err := api.Delete(ctx, site.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return noUpdate, err
				}
				_, err = api.Create(ctx, named(site, site.Name, fmt.Sprint("made with ", site.Spec.Text)), metav1.CreateOptions{})
				return noUpdate, err
			}
			return noUpdate, nil // what is there is left alone
		}), siteOptions{})
	}, changes))
}

// After a failure it takes the first item of the size that it wanted: it may be another site's.
func TestFindsTakesTheItemOfAnother(t *testing.T) {
	skipRaced(t)
	t.Parallel()
	s := ofSites(func(op *framework.Operator, p *frameworktest.Process) error {
		cloud := p.External("cloud")
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.ID != "" {
				return noUpdate, nil
			}
			item, err := cloud.Create(ctx, nameOf(site), "10Gi")
			if err != nil {
				all, err := cloud.List(ctx, "")
				if err != nil || len(all) == 0 {
					return noUpdate, fmt.Errorf("nothing was made: %w", err)
				}
				item = all[0] // all have 10Gi
			}
			site.Status.ID = item.ID
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}, two)
	s.Points = []frameworktest.Point{frameworktest.LostAnswer}
	wantFound(t, s)
}
