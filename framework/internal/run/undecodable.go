package run

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

// undecodableRetry is how long a run that found another version than it knew waits for the watch to bring it.
const undecodableRetry = time.Second

// conditionsIn is where the conditions are in a typed primary; nil if it has none.
func conditionsIn(primary trc.Object) []int {
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
func (c *Controller) conditionsOf(primary trc.Object) *[]metav1.Condition {
	if c.conditions == nil {
		return nil
	}
	return reflect.ValueOf(primary).Elem().FieldByIndex(c.conditions).Addr().Interface().(*[]metav1.Condition)
}

// undecodableCondition is the condition that says that the primary is set aside; nil if there is none.
func (c *Controller) undecodableCondition(primary trc.Object) *metav1.Condition {
	if conds := c.conditionsOf(primary); conds != nil {
		stalled := meta.FindStatusCondition(*conds, conditions.Stalled)
		if stalled != nil && stalled.Reason == ReasonUndecodable && stalled.Status == metav1.ConditionTrue {
			return stalled
		}
	}
	return nil
}

// canShowUndecodable tells whether primaries have a place to say so. A run that finds one set aside may have been due before.
func (c *Controller) canShowUndecodable() bool {
	return c.conditions != nil && c.Resource.StatusApart.Load()
}

// undecodableSeen makes the run due that shows it.
func (c *Controller) undecodableSeen(u *trc.Undecodable) {
	if c.canShowUndecodable() {
		c.Scheduler.Offer(trc.KeyOf(u), scheduler.Event{
			Cause: timeline.External{Source: c.Name, ID: "it does not fit its Go type"}, Lane: scheduler.BulkLane,
		})
	}
}

// showUndecodable is the run of a primary that is set aside. What it writes holds only for the version that does not fit,
// and takes nothing from others: a condition of theirs, or a list that cannot be shared, stays as it is.
func (c *Controller) showUndecodable(rc *Run, u *trc.Undecodable) (result scheduler.Result) {
	defer rc.Life.End()
	defer func() {
		rc.Ended.Store(true)
		result.Requests = rc.Write.End()
	}()
	result.Gone = true // nothing is kept of it
	if errors.Is(u.Err, cache.ErrUnread) {
		return result // its watch brings it
	}
	note := UndecodableNote(u)
	if said := c.undecodableCondition(u.Object); !c.canShowUndecodable() || said != nil && said.Message == note {
		return result
	}
	err := c.sendUndecodable(&rc.Life, rc.Write, u, note)
	switch {
	case err == nil:
	case rc.cutOff(), errors.Is(err, write.ErrStandby), errors.Is(err, write.ErrRunEnded):
		// Who leads next tells, and so does a namespace that is watched again.
	case write.IsStale(err):
		return scheduler.Result{RescheduleAfter: undecodableRetry}
	case write.IsAnswer(err):
		rc.Logger().Info("that it is set aside cannot be shown in its status", "error", err.Error())
	default:
		return scheduler.Result{Err: fmt.Errorf("framework: status of %s, which is set aside: %w", c.Resource.Describe(rc.Key), err)}
	}
	return result
}

func UndecodableNote(u *trc.Undecodable) string {
	return Shortened(fmt.Sprintf("it is left alone, and its finalizers stay, until it fits: %v", u.Err))
}

// sendUndecodable goes past the caches, which do not show the object.
func (c *Controller) sendUndecodable(ctx context.Context, w *write.Writer, u *trc.Undecodable, note string) error {
	var conds []metav1.Condition
	meta.SetStatusCondition(&conds, metav1.Condition{
		Type: conditions.Stalled, Status: metav1.ConditionTrue, ObservedGeneration: u.GetGeneration(), Reason: ReasonUndecodable, Message: note,
	})
	apiVersion, kind := c.GVK.ToAPIVersionAndKind()
	intent, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"uid": u.GetUID(), "resourceVersion": u.GetResourceVersion()},
		"status":   map[string]any{"conditions": conds},
	})
	if err != nil {
		return err
	}
	options := client.Options{
		FieldManager: c.Operator.Name + "/undecodable", WithoutForce: true, Subresource: []string{"status"},
	}
	return w.ApplyPastCaches(ctx, c.GVK, trc.KeyOf(u), intent, options)
}

// clearUndecodable takes off what a primary says of having been set aside, and returns it as it is then.
func (c *Controller) clearUndecodable(ctx context.Context, rc *Run, primary trc.Object) (trc.Object, error) {
	if rc.Gone || c.undecodableCondition(primary) == nil {
		return primary, nil
	}
	without := primary.DeepCopyObject().(trc.Object)
	conds := c.conditionsOf(without)
	meta.RemoveStatusCondition(conds, conditions.Stalled)
	err := c.carryOutByPatch(ctx, rc, primary, Update{Object: without, Status: true})
	if !onlyConflicts(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) {
		rc.Logger().Info("that it was set aside cannot be taken off its status", "error", err.Error())
		return primary, nil // its runs are worth more
	}
	if err != nil {
		return nil, err
	}
	return rc.Write.Primary(c.Resource, rc.Key), nil
}

// decodesAgain is why a primary is due that was set aside, and fits, but that a filter lets have no run for that.
const decodesAgain = "it fits its Go type again"

// onlyClears tells that a run took off what a primary says of having been set aside, and was for nothing else: such a
// run calls no author. before and now are the primary before and after that.
func (c *Controller) onlyClears(rc *Run, before, now trc.Object) bool {
	if rc.Gone || c.undecodableCondition(before) == nil || c.undecodableCondition(now) != nil {
		return false
	}
	return !slices.ContainsFunc(rc.Due.Causes, func(cause timeline.Cause) bool {
		external, ok := cause.(timeline.External)
		return !ok || external.Source != c.Name || external.ID != decodesAgain
	})
}
