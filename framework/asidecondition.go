package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// A primary that is set aside says so in its status, if its type has conditions in the usual place: a
// []metav1.Condition that is written as status.conditions. It is Stalled, with a reason that tells the framework's
// word from the author's. A key that is set aside has a run for that, which calls no author. Once the primary fits
// again, its next run begins with taking the condition off, which works after a restart too.

// asideAgain is how long a run that found another version than it knew waits for the watch to bring it.
const asideAgain = time.Second

// conditionsIn is where the conditions are in a typed primary; nil if it has none.
func conditionsIn(primary Object) []int {
	if object.FormOf(primary) != object.Typed {
		return nil
	}
	status, ok := jsonField(reflect.TypeOf(primary).Elem(), "status")
	if !ok || status.Type.Kind() != reflect.Struct {
		return nil
	}
	conditions, ok := jsonField(status.Type, "conditions")
	if !ok || conditions.Type != reflect.TypeFor[[]metav1.Condition]() {
		return nil
	}
	return slices.Concat(status.Index, conditions.Index)
}

// jsonField is the field of a struct that is written under that name, if it is the struct's own.
func jsonField(in reflect.Type, name string) (reflect.StructField, bool) {
	for i := range in.NumField() {
		if field := in.Field(i); field.IsExported() && strings.Split(field.Tag.Get("json"), ",")[0] == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// conditionsOf are the conditions of a primary, in place; nil if its type has none.
func (c *controller) conditionsOf(primary Object) *[]metav1.Condition {
	if c.conditions == nil {
		return nil
	}
	return reflect.ValueOf(primary).Elem().FieldByIndex(c.conditions).Addr().Interface().(*[]metav1.Condition)
}

// saysAside is the condition that says that the primary is set aside; nil if there is none.
func (c *controller) saysAside(primary Object) *metav1.Condition {
	if conds := c.conditionsOf(primary); conds != nil {
		stalled := meta.FindStatusCondition(*conds, conditions.Stalled)
		if stalled != nil && stalled.Reason == reasonSetAside && stalled.Status == metav1.ConditionTrue {
			return stalled
		}
	}
	return nil
}

// canSayAside tells whether primaries have a place to say so. A run that finds one set aside may have been due before.
func (c *controller) canSayAside() bool {
	return c.conditions != nil && c.resource.StatusApart.Load()
}

// wasSetAside makes the run due that shows it.
func (c *controller) wasSetAside(u *trc.Undecoded) {
	if c.canSayAside() {
		c.scheduler.Offer(trc.KeyOf(u), scheduler.Event{
			Cause: timeline.External{Source: c.name, ID: "it does not fit its Go type"}, Lane: scheduler.BulkLane,
		})
	}
}

// showAside is the run of a primary that is set aside. What it writes holds only for the version that does not fit,
// and takes nothing from others: a condition of theirs, or a list that cannot be shared, stays as it is.
func (c *controller) showAside(rc *run, u *trc.Undecoded) (result scheduler.Result) {
	defer rc.life.End()
	defer func() {
		rc.ended.Store(true)
		result.Requests = rc.write.End()
	}()
	result.Gone = true // nothing is kept of it
	if errors.Is(u.Err, cache.ErrUnread) {
		return result // its watch brings it
	}
	note := asideNote(u)
	if said := c.saysAside(u.Object); !c.canSayAside() || said != nil && said.Message == note {
		return result
	}
	err := c.sendAside(&rc.life, rc.write, u, note)
	switch {
	case err == nil:
	case rc.cutOff(), errors.Is(err, write.ErrStandby), errors.Is(err, write.ErrRunEnded):
		// Who leads next tells, and so does a namespace that is watched again.
	case write.IsStale(err):
		return scheduler.Result{RescheduleAfter: asideAgain}
	case write.IsAnswer(err):
		rc.Logger().Info("that it is set aside cannot be shown in its status", "error", err.Error())
	default:
		return scheduler.Result{Err: fmt.Errorf("framework: status of %s, which is set aside: %w", c.resource.Describe(rc.key), err)}
	}
	return result
}

func asideNote(u *trc.Undecoded) string {
	return shortened(fmt.Sprintf("it is left alone, and its finalizers stay, until it fits: %v", u.Err))
}

// sendAside goes past the caches, which do not show the object.
func (c *controller) sendAside(ctx context.Context, w *write.Writer, u *trc.Undecoded, note string) error {
	var conds []metav1.Condition
	meta.SetStatusCondition(&conds, metav1.Condition{
		Type: conditions.Stalled, Status: metav1.ConditionTrue, ObservedGeneration: u.GetGeneration(), Reason: reasonSetAside, Message: note,
	})
	apiVersion, kind := c.gvk.ToAPIVersionAndKind()
	intent, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"uid": u.GetUID(), "resourceVersion": u.GetResourceVersion()},
		"status":   map[string]any{"conditions": conds},
	})
	if err != nil {
		return err
	}
	options := client.Options{
		FieldManager: c.operator.name + "/set-aside", LeaveToOthers: true, Subresource: []string{"status"},
	}
	return w.ApplyPastCaches(ctx, c.gvk, trc.KeyOf(u), intent, options)
}

// fits takes off what a primary says of having been set aside, and returns it as it is then.
func (c *controller) fits(ctx context.Context, rc *run, primary trc.Object) (trc.Object, error) {
	if rc.gone || c.saysAside(primary) == nil {
		return primary, nil
	}
	without := primary.DeepCopyObject().(Object)
	conds := c.conditionsOf(without)
	meta.RemoveStatusCondition(conds, conditions.Stalled)
	err := c.carryOutByPatch(ctx, rc, primary, update{object: without, status: true})
	if !onlyConflicts(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) {
		rc.Logger().Info("that it was set aside cannot be taken off its status", "error", err.Error())
		return primary, nil // its runs are worth more
	}
	if err != nil {
		return nil, err
	}
	return rc.write.Primary(c.resource, rc.key), nil
}

// fitsAgain is why a primary is due that was set aside, and fits, but that a filter lets have no run for that.
const fitsAgain = "it fits its Go type again"

// onlyFits tells that a run took off what a primary says of having been set aside, and was for nothing else: such a
// run calls no author. before and now are the primary before and after that.
func (c *controller) onlyFits(rc *run, before, now trc.Object) bool {
	if rc.gone || c.saysAside(before) == nil || c.saysAside(now) != nil {
		return false
	}
	return !slices.ContainsFunc(rc.due.Causes, func(cause timeline.Cause) bool {
		external, ok := cause.(timeline.External)
		return !ok || external.Source != c.name || external.ID != fitsAgain
	})
}
