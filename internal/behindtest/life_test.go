package behindtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// patience is how long a life waits for one thing to happen, which takes a second or two on a
// machine that is not busy.
const patience = time.Minute

// life is an app on its database, with what implements it. All its objects have its label. Methods
// are steps: they return an error if the step cannot be done, but do not judge.
type life struct {
	workload
	way      way
	ns, name string // the name is that of the app, and of its workload
	held     bool   // the Pods have to be freed
	observer *observer
	apps     *framework.Operator // implements the apps
	freed    map[types.UID]bool
}

// first is the name of the database that the app begins with, second that of the other one.
func (l *life) first() string  { return l.name + "-first" }
func (l *life) second() string { return l.name + "-second" }

// begin has the app come to life, and others do their worst, until all that can go but the Pods is
// going.
func (l *life) begin(ctx context.Context) error {
	for _, step := range append([]step{(*life).comeToLife}, l.way.steps...) {
		if err := step(l, ctx); err != nil {
			return l.told(err)
		}
	}
	return nil
}

// end frees the Pods and has all go. It returns an error if something stays, or if the history is
// not right.
func (l *life) end(ctx context.Context) error {
	// No held Pod can have gone before this, so what is wrong already is certain.
	if problems := problems(l); l.held && len(problems) > 0 {
		return l.told(errors.Join(problems...))
	}
	for _, step := range append(l.way.after[:len(l.way.after):len(l.way.after)], (*life).drain) {
		if err := step(l, ctx); err != nil {
			return l.told(errors.Join(append(problems(l), err)...))
		}
	}
	if problems := problems(l); len(problems) > 0 {
		return l.told(errors.Join(problems...))
	}
	return nil
}

func problems(l *life) (errs []error) {
	for _, problem := range verdict(l.observer.things(l.name)) {
		errs = append(errs, errors.New(problem))
	}
	return errs
}

// told adds to an error what is known of the life.
func (l *life) told(err error) error {
	lines := []string{err.Error(), "what was seen of " + l.name + ":"}
	for _, t := range l.observer.things(l.name) {
		lines = append(lines, t.String())
	}
	if result, ok := l.apps.WorkflowResult(l.controller(), l.key()); ok {
		for _, n := range result.Nodes {
			lines = append(lines, fmt.Sprintf("node %s: %s %s %v", n.Name, n.State, n.Reason, n.Err))
		}
	}
	return errors.New(strings.Join(lines, "\n  "))
}

func (l *life) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.ns, Name: l.name}
}

// until waits until a condition about the things of the life is met.
func (l *life) until(ctx context.Context, what string, met func(all []*thing) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	return l.observer.until(ctx, l.name, what, met)
}

// object names an object of the life, to be patched or deleted.
func (l *life) object(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(l.ns)
	o.SetName(name)
	return o
}

func (l *life) delete(
	ctx context.Context, kind schema.GroupVersionKind, name string, options ...client.DeleteOption,
) error {
	return client.IgnoreNotFound(admin.Delete(ctx, l.object(kind, name), options...))
}

func (l *life) patch(
	ctx context.Context, kind schema.GroupVersionKind, name string,
	as types.PatchType, patch string,
) error {
	return admin.Patch(ctx, l.object(kind, name), client.RawPatch(as, []byte(patch)))
}

// free removes the test's finalizer and no other.
func (l *life) free(ctx context.Context, kind schema.GroupVersionKind, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, held)
	return client.IgnoreNotFound(l.patch(ctx, kind, name, types.StrategicMergePatchType, patch))
}

func (l *life) comeToLife(ctx context.Context) error {
	labels := map[string]string{lifeLabel: l.name}
	for _, name := range []string{l.first(), l.second()} {
		d := &database{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name, Labels: labels}}
		if err := admin.Create(ctx, d); err != nil {
			return err
		}
	}
	a := &app{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.ns, Name: l.name,
			Labels: map[string]string{lifeLabel: l.name, kindLabel: l.Kind},
		},
		Data: map[string]string{usesKey: l.first()},
	}
	if l.held {
		a.Data[heldKey] = "true"
	}
	if err := admin.Create(ctx, a); err != nil {
		return err
	}
	if l.Kind == "CronJob" {
		if err := l.createJob(ctx); err != nil {
			return err
		}
	}
	return l.until(ctx, "a Pod runs", func(all []*thing) bool { return runs(all, l.first()) })
}

// createJob creates a Job as kubectl create job --from does.
func (l *life) createJob(ctx context.Context) error {
	isThere := func(all []*thing) bool { return len(those(all, "CronJob")) > 0 }
	if err := l.until(ctx, "there is a CronJob", isThere); err != nil {
		return err
	}
	from := &batchv1.CronJob{}
	if err := admin.Get(ctx, l.key(), from); err != nil {
		return err
	}
	isController := true
	template := &from.Spec.JobTemplate
	job := &batchv1.Job{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	job.Namespace, job.Name = l.ns, l.name+"-by-hand"
	job.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob",
		Name: from.Name, UID: from.UID, Controller: &isController,
	}}
	return admin.Create(ctx, job)
}

// runs reports whether a Pod on a database runs, and is not in deletion.
func runs(all []*thing, database string) bool {
	for _, pod := range podsOf(all, database) {
		phase, _, _ := unstructured.NestedString(pod.now.Object, "status", "phase")
		if pod.leaving == 0 && phase == string(corev1.PodRunning) {
			return true
		}
	}
	return false
}

// drain has all go that is left.
func (l *life) drain(ctx context.Context) error {
	second := l.delete(ctx, databaseKind, l.second())
	if err := errors.Join(l.deleteApp(ctx), l.deleteDatabase(ctx), second); err != nil {
		return err
	}
	return l.freeUntil(ctx, "nothing is left", func(all []*thing) bool {
		for _, t := range all {
			if t.gone == 0 {
				return false
			}
		}
		return true
	})
}

// freeUntil frees the Pods in deletion until a condition is met.
func (l *life) freeUntil(ctx context.Context, what string, met func(all []*thing) bool) error {
	for {
		var next *thing
		err := l.until(ctx, what, func(all []*thing) bool {
			next = l.nextToFree(all)
			return next != nil || met(all)
		})
		if err != nil || next == nil {
			return err
		}
		l.freed[next.uid] = true
		if err := l.free(ctx, podKind, next.name); err != nil {
			return err
		}
	}
}

func (l *life) nextToFree(all []*thing) *thing {
	for _, pod := range those(all, podKind.Kind) {
		if l.held && pod.leaving != 0 && !l.freed[pod.uid] {
			return pod
		}
	}
	return nil
}
