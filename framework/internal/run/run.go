package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// onlyConflicts reports whether err is a conflict, or several. It may also hold notSynced errors,
// but not only these: the next run need not wait for the sources then.
func onlyConflicts(err error) bool {
	return !onlyNotSynced(err) && object.IsOnly(err, func(err error) bool { return object.Is[*write.Conflict](err) || object.Is[*registry.NotSynced](err) })
}

// errorStatusTime is how long an ErrorStatusHandler may take if the run has used up its time.
const errorStatusTime = 10 * time.Second

// Reconcile is one run: it begins, the author's code decides, and it is finished. The scheduler
// calls it.
func (c *Controller) Reconcile(life context.Context, key trc.Key, run scheduler.Run) scheduler.Result {
	rc := c.newContext(life, key, run)
	if !c.admission.Enter(key, &rc.Life) { // it is offered again when the namespace is filled
		return scheduler.Result{Gone: true}
	}
	defer c.admission.Leave(&rc.Life)
	shared, gone := c.finalRuns.Begin(key), true
	if shared == nil {
		shared, gone = c.Store.Get(key), false
	}
	if shared == nil {
		if u := c.Store.Undecodable(key); u != nil { // it comes back as an addition
			return c.showUndecodable(rc, u)
		}
		return scheduler.Result{Gone: true}
	}
	defer rc.Life.End()
	turns := c.begin(rc, shared, gone)
	finished := false
	defer func() {
		if !finished { // the author's code has ended the goroutine: nobody gets a result
			c.endWrites(rc, false)
			rc.Writes.Close()
		}
	}()
	result, err := c.goThrough(&rc.Life, rc, shared)
	result, awaits := c.decide(&rc.Life, rc, result, err)
	rc.Writes.AwaitDelivery(life)
	c.followLoop(rc, turns, &result)
	result = c.finish(rc, result, awaits)
	finished = true
	return result
}

// begin gives a run its primary. It returns how many runs in a row the primary has caused itself.
func (c *Controller) begin(rc *Run, shared trc.Object, gone bool) (turns int) {
	rc.Gone, rc.Writes.Primary.Gone = gone, gone
	// The primary as it was read is not changed. The author's copy is made when it is known which
	// version the author sees.
	rc.Writes.Primary.Object = shared
	rc.Writes.Primary.Hold(shared)
	if !gone {
		rc.Writes.Record.Reads(c.Store.Store, shared)
	}
	return c.states.beginRun(rc.Key, rc.Due.Causes)
}

// decide says what the end of a run means. awaits reports whether the run waits for a source.
func (c *Controller) decide(ctx context.Context, rc *Run, result scheduler.Result, err error) (_ scheduler.Result, awaits bool) {
	if onlyConflicts(err) && ctx.Err() == nil {
		// This is no failure but a reason to look again. The conflict has brought the fresh object
		// already.
		rc.Logger().V(1).Info("conflict, running again", "conflict", err.Error())
		err, result.Superseded = nil, true
	}
	if onlyNotSynced(err) && ctx.Err() == nil {
		// This is no failure either: the source brings the next run when it is filled.
		rc.Logger().V(1).Info("waits for a source", "reason", err.Error())
		err, awaits = nil, true
	}
	if rc.cutOff() && err != nil {
		// Nobody may act on this. If the lease or the namespace comes back, so does the run.
		err, result.Superseded = nil, true
	}
	result.Err = admission.WithTimeout(ctx, err)
	result.Excused = result.Err != nil && (rc.Life.IsCut() || c.Options.Retry.Judge(result.Err).Class == retry.Soon)
	return result, awaits
}

// finish ends a run that returned. The result says what it sent, and what to do once the causes
// that arrived during the run are decided.
func (c *Controller) finish(rc *Run, result scheduler.Result, awaits bool) scheduler.Result {
	result.Requests = c.endWrites(rc, !awaits && result.Err == nil && !result.Superseded)
	result.ReadsAhead = int(rc.Writes.Record.ReadsAhead.Load())
	result.Nodes, result.ID = rc.workflowRuns.records(), rc.logID(result.Err != nil)
	if rc.Gone && !awaits {
		c.finalRunSucceeded(rc, &result)
	}
	result.Decided = rc.Writes.Closing()
	if failure := result.Err; failure != nil && !rc.Life.IsCut() {
		excused := result.Excused
		result.Decided = func() { rc.Writes.Close(); c.followUp(rc, failure, excused) }
	}
	return result
}

// endWrites ends what a run reads and writes, and returns the requests that it sent.
func (c *Controller) endWrites(rc *Run, succeeded bool) []timeline.Request {
	rc.Ended.Store(true)
	requests := rc.Writes.End()
	c.leave(rc.Key, rc.Writes, succeeded)
	c.Sources.Leave(&rc.visit, rc.uid())
	c.letGoIfGone(incarnation{rc.Key, rc.uid()})
	return requests
}

// goThrough is a run without its end.
func (c *Controller) goThrough(ctx context.Context, rc *Run, shared trc.Object) (scheduler.Result, error) {
	if resolved, err := c.resolve(ctx, rc); resolved || err != nil {
		// The outcome of earlier writes may change what a run sees, so the run is repeated.
		return scheduler.Result{Superseded: err == nil}, err
	}
	return c.lifecycle(ctx, rc, shared)
}

// cutOff reports whether the run was ended for a reason that is no failure of its own: the term of
// leadership is lost, or a namespace that it reads is no longer watched.
func (c *Run) cutOff() bool {
	return c.Writes.LostLease() || errors.Is(c.Life.Cause(), admission.ErrNamespacesChanged)
}

// resolve finds out the outcome of writes that the last run of the primary could not learn.
// Otherwise this run could begin with a view that is older than these writes.
func (c *Controller) resolve(ctx context.Context, rc *Run) (resolved bool, err error) {
	left, any := c.states.takeUnresolved(incarnation{rc.Key, rc.Writes.Primary.Object.GetUID()})
	if !any {
		return false, nil
	}
	resolved, err = rc.Writes.ResolveAll(ctx, &left, c.Stores())
	if !left.IsEmpty() {
		c.keep(rc.Key, left)
	}
	return resolved, err
}

// leave keeps the writes of unknown outcome for the next run. Unless the run succeeded, it also
// keeps the objects of earlier runs that this run has not asked for.
func (c *Controller) leave(key trc.Key, writes *write.Run, succeeded bool) {
	if left := writes.Leftover(succeeded); !left.IsEmpty() {
		c.keep(key, left)
	}
}

// keep keeps writes for the next run of the same incarnation. Another primary of the same name does
// not get them.
func (c *Controller) keep(key trc.Key, left write.Leftovers) {
	c.states.keepUnresolved(incarnation{key, left.UID}, left)
	if c.Options.AllEvents && c.Filters.Remove == nil && c.Filters.Every == nil && c.Store.Covers(key.Namespace) {
		return // the final run of the primary needs them, and drops them
	}
	// If the primary was deleted during the run, the deletion found nothing to drop.
	now := c.Store.Get(key)
	if aside := c.Store.Undecodable(key); aside != nil {
		now = aside
	}
	if (now == nil || now.GetUID() != left.UID) && !c.finalRuns.Has(key, left.UID) {
		c.states.takeUnresolved(incarnation{key, left.UID})
	}
}

// newContext makes the context of a run, without the primary.
func (c *Controller) newContext(life context.Context, key trc.Key, due scheduler.Run) *Run {
	rc := c.author.NewRun()
	rc.Controller, rc.Key, rc.Due = c, key, due
	rc.visit.Key, rc.visit.Ended = key, &rc.Ended
	rc.Life.Begin(life, c.Options.RunTimeout, rc)
	rc.Writes.Begin(&c.writeConfig, c.ledgerWriter(key), c.Operator.Cluster.Fence.Current(), c.keepsRecords(), c.Operator.Calls)
	return rc
}

// lifecycle decides between cleanup and reconcile. It adds the finalizer before the author's first
// side effect.
func (c *Controller) lifecycle(ctx context.Context, rc *Run, shared trc.Object) (scheduler.Result, error) {
	before := shared
	shared, err := c.clearUndecodable(ctx, rc, before)
	if err != nil {
		return scheduler.Result{}, err
	}
	if c.onlyClears(rc, before, shared) {
		return scheduler.Result{Gone: true}, nil // like no run at all, as the filter wants
	}
	rc.Writes.Primary.Object = shared
	if shared.GetDeletionTimestamp() != nil && !c.Options.AllEvents {
		if !c.Cleans() || !c.hasFinalizer(shared) {
			c.emitFinalizerLeftOver(rc, shared)
			return scheduler.Result{}, nil
		}
		rc.Primary = shared.DeepCopyObject().(trc.Object)
		return c.cleanup(ctx, rc)
	}
	read := shared
	if c.needsFinalizer(shared) {
		if !rc.Writes.LostLease() && !c.hasFinalizer(shared) {
			c.emitFinalizerRemoved(shared, rc.Due.Causes)
		}
		withFinalizer, err := c.addFinalizer(ctx, &rc.Writes.Local, shared)
		if err != nil {
			return scheduler.Result{}, err
		}
		read, rc.Writes.Primary.Object = withFinalizer, withFinalizer
		rc.Writes.Primary.Hold(withFinalizer)
	}
	rc.Primary = read.DeepCopyObject().(trc.Object)
	return c.reconcileAuthor(ctx, rc, read)
}

func (c *Controller) cleanup(ctx context.Context, rc *Run) (scheduler.Result, error) {
	if err := c.cleanupWorkflow(ctx, rc); err != nil {
		return scheduler.Result{}, err
	}
	control, err := Deletion{Kind: RemovesFinalizer}, error(nil)
	if c.HasCleanup {
		control, err = c.callCleanup(ctx, rc)
	}
	if err := cmp.Or(err, control.validate(), rc.cutShort(ctx)); err != nil {
		return scheduler.Result{}, err
	}
	if control.Kind == KeepsFinalizer {
		return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule, Superseded: c.metConflict(rc)}, nil
	}
	if remains, err := c.notGone(rc); remains {
		return scheduler.Result{}, err
	}
	if err := c.removeFinalizer(ctx, &rc.Writes.Local, rc.Writes.Primary.Object); err != nil {
		return scheduler.Result{}, err
	}
	c.emitFinalizerLeftOver(rc, rc.Writes.Primary.Object)
	return scheduler.Result{}, nil
}

// reconcileAuthor calls the author and carries out the result. read is the primary as the author
// got it. Changes are computed against it.
func (c *Controller) reconcileAuthor(ctx context.Context, rc *Run, read trc.Object) (scheduler.Result, error) {
	if err := c.reconcileWorkflow(ctx, rc); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	control, err := c.callReconcile(ctx, rc)
	if err != nil && control.asks() {
		c.logDropped(rc, err)
	}
	if err := cmp.Or(err, rc.cutShort(ctx)); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	if err := c.carryOut(ctx, rc, read, control); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule, Superseded: c.metConflict(rc)}, nil
}

// caught turns a panic of the author's into an error. This happens before the scheduler would do
// it, so that an ErrorStatusHandler is called, and that the record names the writes before the
// panic.
func caught(err *error) {
	if value := recover(); value != nil {
		*err = scheduler.NewPanicError(value)
	}
}

func (c *Controller) callReconcile(ctx context.Context, rc *Run) (control Update, err error) {
	defer caught(&err)
	control, err = c.author.Reconcile(ctx, rc)
	return control, PassError(author.Sound(err))
}

func (c *Controller) callCleanup(ctx context.Context, rc *Run) (control Deletion, err error) {
	defer caught(&err)
	control, err = c.author.Cleanup(ctx, rc)
	return control, PassError(author.Sound(err))
}

func (c *Controller) callErrorStatus(ctx context.Context, rc *Run, failure error) (control ErrorStatus, err error) {
	defer caught(&err)
	return c.author.ErrorStatus(ctx, rc, failure), nil
}

// isNoFailure reports whether err is a reason to run again, soon or when a source is filled. Such a
// run counts as no attempt and is not shown as a failure.
func (c *Controller) isNoFailure(err error) bool {
	return onlyConflicts(err) || onlyNotSynced(err) || c.Options.Retry.Judge(err).Class == retry.Soon
}

// logDropped logs, at most once a minute, that the control that Reconcile returned with an error is
// not carried out.
func (c *Controller) logDropped(rc *Run, err error) {
	if !c.ShowsErrors && !c.isNoFailure(err) && c.dropped.may() {
		rc.Logger().Info("what Reconcile returned beside its error is not carried out, a status neither: "+
			"implement ErrorStatusHandler to write one when a run fails", "error", err.Error())
	}
}

func (c *Controller) failed(ctx context.Context, rc *Run, read trc.Object, failure error) (scheduler.Result, error) {
	if !c.ShowsErrors || c.isNoFailure(failure) || rc.cutOff() || rc.Life.IsCut() {
		return scheduler.Result{}, failure
	}
	if ctx.Err() != nil && rc.Life.Whole().Err() == nil {
		// The run's own deadline has passed. The status must show this, too.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(rc.Life.Whole(), errorStatusTime)
		defer cancel()
	}
	control, err := c.callErrorStatus(ctx, rc, failure)
	if err != nil {
		return scheduler.Result{}, errors.Join(failure, err)
	}
	if control.Status && !rc.Gone {
		err := c.carryOut(ctx, rc, read, Update{Object: control.Object, Status: true})
		switch {
		case err == nil:
		case control.NoRetry && c.isNoFailure(err):
			return scheduler.Result{}, err // no retry would write it
		case !onlyConflicts(err):
			return scheduler.Result{}, errors.Join(failure, err)
		}
	}
	if control.NoRetry {
		rc.Logger().V(1).Info("failure handled by ErrorStatus", "error", failure.Error())
		return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule}, nil
	}
	return scheduler.Result{}, failure
}
