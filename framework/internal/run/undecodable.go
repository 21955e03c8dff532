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

// The status of an undecodable primary says so, if its type has conditions in the usual place: a
// []metav1.Condition that is written as status.conditions. The condition is Stalled, with a reason
// that distinguishes the framework's condition from the author's. A run writes the condition and
// calls no author. When the primary decodes again, its next run first removes the condition. This
// works after a restart, too.

// undecodableRetry is how long a run waits for the watch if it found another version than the cache
// has.
const undecodableRetry = time.Second

// conditionPath is the index path of the conditions in a typed primary; nil if its type has none.
type conditionPath []int

// conditionsIn returns the index path of the conditions in a typed primary, nil if it has none.
func conditionsIn(primary trc.Object) conditionPath {
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

// jsonField returns the field of a struct with that JSON name. Fields of embedded structs do not
// count.
func jsonField(in reflect.Type, name string) (reflect.StructField, bool) {
	for i := range in.NumField() {
		if field := in.Field(i); field.IsExported() && strings.Split(field.Tag.Get("json"), ",")[0] == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// of returns the conditions of a primary, in place. It returns nil if its type has none.
func (p conditionPath) of(primary trc.Object) *[]metav1.Condition {
	if p == nil {
		return nil
	}
	return reflect.ValueOf(primary).Elem().FieldByIndex(p).Addr().Interface().(*[]metav1.Condition)
}

// find returns a condition of a primary, nil if there is none.
func (p conditionPath) find(primary trc.Object, condition string) *metav1.Condition {
	if conds := p.of(primary); conds != nil {
		return meta.FindStatusCondition(*conds, condition)
	}
	return nil
}

// undecodable returns the condition that says that the primary is undecodable, nil if
// there is none.
func (p conditionPath) undecodable(primary trc.Object) *metav1.Condition {
	stalled := p.find(primary, conditions.Stalled)
	if stalled != nil && stalled.Reason == ReasonUndecodable && stalled.Status == metav1.ConditionTrue {
		return stalled
	}
	return nil
}

// canShowConditions reports whether primaries have a place for conditions. It must be asked again
// in the run, which may have been due for another reason.
func (c *Controller) canShowConditions() bool {
	return c.conditions != nil && c.Resource.StatusApart.Load()
}

// undecodableSeen enqueues the run that writes the condition.
func (h primaryHandler) undecodableSeen(u *trc.Undecodable) {
	if h.canShowConditions() {
		h.Scheduler.Offer(trc.KeyOf(u), scheduler.Event{
			Cause: timeline.External{Source: h.Name, ID: "it is undecodable"}, Lane: scheduler.BulkLane,
		})
	}
}

// showUndecodable is the run of an undecodable primary. Its write holds only for the version that
// does not decode. It takes nothing from others: their condition, or a list that cannot be shared,
// is not changed.
func (e primaryWriter) showUndecodable(u *trc.Undecodable) (result scheduler.Result) {
	defer e.run.Life.End()
	defer func() {
		e.run.Ended.Store(true)
		result.Requests = e.run.Writes.End()
	}()
	result.Gone = true // no state is kept for the key
	if errors.Is(u.Err, cache.ErrUnread) {
		return result // its watch brings it
	}
	note := UndecodableNote(u)
	if said := e.conditions.undecodable(u.Object); !e.canShowConditions() || said != nil && said.Message == note {
		return result
	}
	err := e.sendUndecodable(&e.run.Life, u, note)
	switch {
	case err == nil:
	case e.run.cutOff(), errors.Is(err, write.ErrStandby), errors.Is(err, write.ErrRunEnded):
		// The next leader writes it, and so does this instance if the namespace is watched again.
	case write.IsStale(err):
		return scheduler.Result{RescheduleAfter: undecodableRetry}
	case write.IsAnswer(err):
		e.run.Logger().Info("cannot show in its status that the primary is undecodable", "error", err.Error())
	default:
		return scheduler.Result{Err: fmt.Errorf("framework: status of %s, which is undecodable: %w", e.Resource.Describe(e.run.Key), err)}
	}
	return result
}

// UndecodableNote returns the text of the condition and the event for an undecodable object.
func UndecodableNote(u *trc.Undecodable) string {
	return Shortened(fmt.Sprintf("it is not reconciled, and keeps its finalizers, until it decodes again: %v", u.Err))
}

// sendUndecodable applies the condition without the caches, as they do not hold the object.
func (e primaryWriter) sendUndecodable(ctx context.Context, u *trc.Undecodable, note string) error {
	var conds []metav1.Condition
	meta.SetStatusCondition(&conds, metav1.Condition{
		Type: conditions.Stalled, Status: metav1.ConditionTrue, ObservedGeneration: u.GetGeneration(), Reason: ReasonUndecodable, Message: note,
	})
	apiVersion, kind := e.GVK.ToAPIVersionAndKind()
	intent, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"uid": u.GetUID(), "resourceVersion": u.GetResourceVersion()},
		"status":   map[string]any{"conditions": conds},
	})
	if err != nil {
		return err
	}
	options := client.Options{
		FieldManager: e.Operator.Name + "/undecodable", WithoutForce: true, Subresource: []string{"status"},
	}
	return e.run.Writes.Local.ApplyPastCaches(ctx, e.GVK, trc.KeyOf(u), intent, options)
}

// clearUndecodable removes the condition from a primary that decodes again. It returns the primary
// after that.
func (e primaryWriter) clearUndecodable(ctx context.Context, primary trc.Object) (trc.Object, error) {
	if e.run.Gone || e.conditions.undecodable(primary) == nil {
		return primary, nil
	}
	return e.without(ctx, primary, conditions.Stalled)
}

// without removes a condition from the status of a primary. It returns the primary after that.
func (e primaryWriter) without(ctx context.Context, primary trc.Object, condition string) (trc.Object, error) {
	without := primary.DeepCopyObject().(trc.Object)
	meta.RemoveStatusCondition(e.conditions.of(without), condition)
	err := e.carryOutByPatch(ctx, primary, Update{Object: without, Status: true})
	if !onlyConflicts(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) {
		e.run.Logger().Info("cannot remove a condition from its status", "condition", condition, "error", err.Error())
		return primary, nil // a run is worth more than the condition
	}
	if err != nil {
		return nil, err
	}
	return e.run.Writes.Primary.Held(), nil
}

// decodesAgain is the cause of a primary that decodes again if filters give it no run for that.
const decodesAgain = "it decodes again"

// onlyClears reports whether a run removed the condition, and had no other cause. Such a run calls
// no author. before and now are the primary before and after that.
func (e primaryWriter) onlyClears(before, now trc.Object) bool {
	if e.run.Gone || e.conditions.undecodable(before) == nil || e.conditions.undecodable(now) != nil {
		return false
	}
	return !slices.ContainsFunc(e.run.Due.Causes, func(cause timeline.Cause) bool {
		external, ok := cause.(timeline.External)
		return !ok || external.Source != e.Name || external.ID != decodesAgain
	})
}
