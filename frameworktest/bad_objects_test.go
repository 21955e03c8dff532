package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/timeline"
)

// objectPairs are flaws in what operators do with the objects of the cluster.
func objectPairs() []pair {
	return []pair{
		{
			name: "careless", story: appears, bad: careless, good: looksFirst,
			found: "crash-answered crash-before crash-committed refused-409 refused-429 refused-500 rival stale-server",
			first: "crash-committed@1, at write 1: create configmaps default/hello", says: "+ configmaps hello-*",
		},
		{
			name: "takes the status for memory", story: changes, bad: statusAsMemory, good: applies,
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-409 refused-429 refused-500 rival stale-server",
			first: "crash-committed@1, at write 1: update sites.test.evenkeel.dev/status default/hello", says: "no. 1 there is something else than without a fault (-), it is (+):\n    - configmaps hello",
		},
		{
			name: "adopts others' objects", story: nameIsTaken, always: usersKeepTheirs, bad: adopts, good: asksWhoseItIs,
			found: "no-fault",
			first: "no-fault", says: `Always, after apply configmaps default/hello by operator (2s): the user's ConfigMap hello has the text "hi"`,
		},
		{
			name: "relies on the order of creations", story: appears, bad: orderOfCreations, good: createsEach,
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-429 refused-500 rival stale-server",
			first: "crash-committed@1, at write 1: create configmaps default/hello", says: "- configmaps hello-second",
		},
		{
			name: "acts on edges", story: changes, bad: edges, twin: "takes the status for memory",
			found: "crash-before refused-429 refused-500",
			first: "refused-429@1, at write 1: create configmaps default/hello", says: "no. 1 there is something else than without a fault (-), it is (+):\n    - configmaps hello",
		},
		{
			name: "has unbounded names", story: longNames, always: oneForEach, bad: unboundedNames, good: boundedNames,
			found: "no-fault",
			first: "no-fault", says: "2 sites say that they have a ConfigMap, and there are 1",
		},
		{
			name: "has a clock in the desired state", virtual: "it takes minutes", story: appears, bad: clock, twin: "takes the status for memory",
			found: "no-fault",
			first: "no-fault", says: "it does not come to rest: after 6h0m0s there are still writes",
		},
		{
			name: "fights with itself", story: appears, bad: fights, good: divides,
			found: "no-fault",
			first: "no-fault", says: "it does not come to rest: more than 1000 writes in 10m0s",
		},
		{
			name: "deletes by name", story: successor, bad: deletesByName, good: deletesItsOwn,
			found: "crash-answered crash-before crash-committed refused-429 rival stale-server",
			first: "crash-committed@3, at write 3: delete configmaps default/hello", says: "- configmaps hello",
		},
		{
			name: "counts runs in the status", story: appears, bad: countsRuns, good: countsGenerations,
			found: "crash-answered crash-committed failed-500 lost-answer restart rival stale-server",
			first: "restart", says: "number: 2",
		},
		{
			name: "has a dependent that is not pure", story: changes, bad: impure, good: pure,
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-409 refused-429 refused-500 restart rival stale-server",
			first: "restart", says: "revision 1",
		},
	}
}

// careless remembers in the status alone what it has created.
func careless(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.ID == "" {
			made, err := framework.Create(ctx, c, generated(site), framework.OwnedByPrimary())
			if err != nil {
				return noUpdate, err
			}
			site.Status.ID = made.Name
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{})
}

// looksFirst looks for what belongs to the site.
func looksFirst(op *framework.Operator, _ *frameworktest.Process) error {
	owned := &configMaps{}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		present, err := owned.Get(c)
		if err == nil && present == nil {
			present, err = framework.Create(ctx, c, generated(site), framework.OwnedByPrimary())
		}
		if err != nil {
			return noUpdate, err
		}
		site.Status.ID = present.Name
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: framework.Secondaries(owned)})
}

// statusAsMemory says that it is done, and then does it.
func statusAsMemory(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.Text == site.Spec.Text {
			return noUpdate, nil
		}
		site.Status.Text = site.Spec.Text
		if _, err := framework.UpdateStatus(ctx, c, site); err != nil {
			return noUpdate, err
		}
		_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text))
		return noUpdate, err
	}), siteOptions{})
}

// applies applies in each run, and says so afterwards.
func applies(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if _, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary()); err != nil {
			return noUpdate, err
		}
		site.Status.Text = site.Spec.Text
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: framework.Secondaries(&configMaps{})})
}

// nameIsTaken is a story in which a user has a ConfigMap of the site's name.
func nameIsTaken(w *frameworktest.World) {
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Data: map[string]string{"text": "mine"}})
	appears(w)
}

// usersKeepTheirs holds while the user's ConfigMap is as it was.
func usersKeepTheirs(v frameworktest.Version) error {
	for _, o := range frameworktest.Objects[*corev1.ConfigMap](v) {
		if o.Data["text"] != "mine" {
			return fmt.Errorf("the user's ConfigMap %s has the text %q", o.Name, o.Data["text"])
		}
	}
	return nil
}

// adopts takes what exists for what it made before.
func adopts(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		desired := named(site, site.Name, site.Spec.Text)
		_, err := framework.Create(ctx, c, desired, framework.OwnedByPrimary())
		if apierrors.IsAlreadyExists(err) {
			_, err = framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
		}
		return noUpdate, err
	}), siteOptions{})
}

// asksWhoseItIs leaves to a dependent what belongs to whom.
func asksWhoseItIs(op *framework.Operator, _ *frameworktest.Process) error {
	node := &dependent.Kubernetes[*Site, *corev1.ConfigMap]{Desired: dependent.Pure(func(site *Site) *corev1.ConfigMap {
		return named(site, site.Name, site.Spec.Text)
	})}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		site.Status.Text = site.Spec.Text
		if _, err := node.Reconcile(ctx, c); errors.Is(err, dependent.ErrForeign) {
			site.Status.Text = "the name is taken"
		} else if err != nil {
			return noUpdate, err
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: dependent.Secondaries(node)})
}

// creations creates ConfigMaps: all if the first is missing, or each that is missing.
func creations(each bool) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			for _, suffix := range []string{"-first", "-second"} {
				present, err := owned.GetNamed(c, site.Namespace, site.Name+suffix)
				if err != nil {
					return noUpdate, err
				}
				if present != nil && !each {
					return noUpdate, nil // the second was made with the first
				}
				if present == nil {
					if _, err := framework.Create(ctx, c, named(site, site.Name+suffix, site.Spec.Text), framework.OwnedByPrimary()); err != nil {
						return noUpdate, err
					}
				}
			}
			return noUpdate, nil
		}), siteOptions{Secondaries: framework.Secondaries(owned)})
	}
}

var orderOfCreations, createsEach = creations(false), creations(true)

// edges does what the causes say.
func edges(op *framework.Operator, _ *frameworktest.Process) error {
	owned := &configMaps{}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		for _, cause := range c.Causes() {
			switch change, _ := cause.(timeline.Resource); {
			case change.Kind != "Site":
			case change.Action == timeline.Added:
				present, err := owned.Get(c)
				if err == nil && present == nil {
					_, err = framework.Create(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
				}
				return noUpdate, err
			case change.Action == timeline.Updated:
				_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
				return noUpdate, err
			}
		}
		return noUpdate, nil
	}), siteOptions{Secondaries: framework.Secondaries(owned)})
}

// longNames is a story of two sites whose long names differ at the end.
func longNames(w *frameworktest.World) {
	long := strings.Repeat("long-", 12)
	w.Create(newSite(long+"first", "hi"))
	w.Create(newSite(long+"second", "hi, too"))
	w.Rest()
}

// oneForEach holds if there are as many ConfigMaps as sites that say that they have one.
func oneForEach(v frameworktest.Version) error {
	said := 0
	for _, site := range frameworktest.Objects[*Site](v) {
		if site.Status.ID != "" {
			said++
		}
	}
	if all := frameworktest.Objects[*corev1.ConfigMap](v); len(all) < said {
		return fmt.Errorf("%d sites say that they have a ConfigMap, and there are %d", said, len(all))
	}
	return nil
}

// names publishes under the name that a function makes.
func names(of func(site *Site) string) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			made, err := framework.Apply(ctx, c, named(site, of(site), ""))
			if err != nil {
				return noUpdate, err
			}
			site.Status.ID = made.Name
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}
}

var (
	unboundedNames = names(func(site *Site) string { return site.Name[:min(len(site.Name), 50)] + "-config" })
	boundedNames   = names(func(site *Site) string { return framework.StableName(site.Name, site) })
)

// clock writes down when it has published.
func clock(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		desired := named(site, site.Name, site.Spec.Text)
		desired.Annotations["published"] = time.Now().Format(time.RFC3339)
		_, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
		return noUpdate.RescheduleAfter(5 * time.Minute), err
	}), siteOptions{Secondaries: framework.Secondaries(&configMaps{})})
}

// controllers are two that publish with keys of their own.
func controllers(first, second string) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		for i, key := range []string{first, second} {
			all := &configMaps{Map: func(o *corev1.ConfigMap) []types.NamespacedName {
				return []types.NamespacedName{{Name: o.Annotations["site"]}}
			}}
			name := fmt.Sprintf("controller-%d", i)
			err := framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
				desired := named(site, site.Name, "")
				desired.Data = map[string]string{key: name}
				_, err := framework.Apply(ctx, c, desired)
				return noUpdate, err
			}), siteOptions{Name: name, Secondaries: framework.Secondaries(all)})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

var fights, divides = controllers("by", "by"), controllers("first", "second")

// successor is a story in which a user takes the name as soon as the operator has given it up.
func successor(w *frameworktest.World) {
	appears(w)
	w.Delete(newSite("hello", ""))
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Data: map[string]string{"text": "mine"}}
	for taken := true; taken; _, taken = frameworktest.Get(w, mine) {
		w.Proceed(100 * time.Millisecond)
	}
	w.Create(mine)
	w.Rest()
}

// deletes publishes, and deletes in the end as a function does.
func deletes(remove func(ctx context.Context, p *frameworktest.Process, site *Site, c *siteContext, owned *configMaps) error) operator {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, cleaning{
			reconcile: func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
				_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
				return noUpdate, err
			},
			cleanup: func(ctx context.Context, site *Site, c *siteContext) (framework.DeleteControl, error) {
				return framework.RemoveFinalizer(), remove(ctx, p, site, c, owned)
			},
		}, siteOptions{Secondaries: framework.Secondaries(owned)})
	}
}

var deletesByName = deletes(func(ctx context.Context, p *frameworktest.Process, site *Site, _ *siteContext, _ *configMaps) error {
	err := bare(p).CoreV1().ConfigMaps(site.Namespace).Delete(ctx, site.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
})

var deletesItsOwn = deletes(func(ctx context.Context, _ *frameworktest.Process, _ *Site, c *siteContext, owned *configMaps) error {
	present, err := owned.Get(c)
	if err != nil || present == nil {
		return err
	}
	return framework.Delete(ctx, c, present)
})

// counts writes a number into the status.
func counts(of func(site *Site) int64) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(_ context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			site.Status.Number = of(site)
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}
}

var (
	countsRuns        = counts(func(site *Site) int64 { return site.Status.Number + 1 })
	countsGenerations = counts(func(site *Site) int64 { return site.Generation })
)

// published is a dependent whose text is a function of the site.
func published(text func(site *Site) string) framework.Workflow[*Site] {
	return framework.Workflow[*Site]{Dependents: []framework.Dependent[*Site]{
		&dependent.Kubernetes[*Site, *corev1.ConfigMap]{Desired: dependent.Pure(func(site *Site) *corev1.ConfigMap {
			return named(site, site.Name, text(site))
		})},
	}}
}

// does is a reconciler that leaves all to the workflow.
var does = reconcile(func(context.Context, *Site, *siteContext) (siteUpdate, error) { return noUpdate, nil })

// impure has a revision that counts how often it was asked.
func impure(op *framework.Operator, _ *frameworktest.Process) error {
	var revision atomic.Int64
	return framework.Register(op, does, siteOptions{Workflow: published(func(site *Site) string {
		return fmt.Sprintf("%s, revision %d", site.Spec.Text, revision.Add(1))
	})})
}

// pure has the revision that the API server counts.
func pure(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, does, siteOptions{Workflow: published(func(site *Site) string {
		return site.Spec.Text + ", revision " + strconv.FormatInt(site.Generation, 10)
	})})
}
