package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
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

// execution is one run of a primary, from its begin to its finish.
type execution struct {
	*Controller
	run *Run
}

// primary returns what writes to the primary of the run.
func (e execution) primary() primaryWriter { return primaryWriter(e) }

// Reconcile is one run, unless a plan holds it back. The scheduler calls it.
func (c *Controller) Reconcile(life context.Context, key trc.Key, due scheduler.Run) scheduler.Result {
	plan := planning.Of(life)
	if plan == nil {
		result, _ := oneRun(c, life, key, due)
		return result
	}
	life, ends := plan.Begins(life, c.Name, key)
	if ends == nil {
		return scheduler.Result{Unrecorded: true}
	}
	failure, again := errors.New("the author's code ended the goroutine of the run"), false
	defer func() { ends(failure, again) }()
	result, awaits := oneRun(c, life, key, due)
	failure, again = result.Err, result.Superseded || awaits
	return result
}

// oneRun is one run: it begins, the author's code decides, and it is finished. awaits reports
// whether it waits for a source.
func oneRun(c *Controller, life context.Context, key trc.Key, due scheduler.Run) (result scheduler.Result, awaits bool) {
	run := c.newRun(life, key, due)
	if !c.admission.Enter(key, &run.Life) { // it is offered again when the namespace is filled
		return scheduler.Result{Gone: true}, false
	}
	defer c.admission.Leave(&run.Life)
	shared, gone := c.finalRuns.Begin(key), true
	if shared == nil {
		shared, gone = c.Store.Get(key), false
	}
	e := execution{c, run}
	if shared == nil {
		if u := c.Store.Undecodable(key); u != nil { // it comes back as an addition
			return e.primary().showUndecodable(u), false
		}
		return scheduler.Result{Gone: true}, false
	}
	defer run.Life.End()
	e.begin(shared, gone)
	finished := false
	defer func() {
		if !finished { // the author's code has ended the goroutine: nobody gets a result
			e.endWrites(false)
			run.Writes.Close()
			c.Records.lost.keep(key, run.id.Load())
		}
	}()
	c.Records.begin(life, run)
	goThrough := execution.goThrough
	if gone {
		goThrough = apart
	}
	result, err := goThrough(e, &run.Life, shared)
	result, awaits = e.decide(&run.Life, result, err)
	run.Writes.AwaitDelivery(life)
	e.followLoop(&result)
	followFights(e, &result)
	result = e.finish(result, awaits)
	finished = true
	return result, awaits
}

// begin gives a run its primary, and a place in a chain of runs.
func (e execution) begin(shared trc.Object, gone bool) {
	e.run.Gone, e.run.Writes.Primary.Gone = gone, gone
	// The primary as it was read is not changed. The author's copy is made when it is known which
	// version the author sees.
	e.run.Writes.Primary.Object = shared
	e.run.Writes.Primary.Hold(shared)
	if !gone {
		e.run.Writes.Record.Reads(e.Store.Store, shared)
	}
	e.run.Writes.Chain = e.states.beginRun(e.run.Key, e.run.Due.Causes, e.Operator.Cluster.Contests, e.Name)
}

// decide says what the end of a run means. awaits reports whether the run waits for a source.
func (e execution) decide(ctx context.Context, result scheduler.Result, err error) (_ scheduler.Result, awaits bool) {
	if onlyConflicts(err) && ctx.Err() == nil {
		// This is no failure but a reason to look again. The conflict has brought the fresh object
		// already.
		e.run.Logger().V(1).Info("conflict, running again", "conflict", err.Error())
		err, result.Superseded = nil, true
	}
	if onlyNotSynced(err) && ctx.Err() == nil {
		// This is no failure either: the source brings the next run when it is filled.
		e.run.Logger().V(1).Info("waits for a source", "reason", err.Error())
		err, awaits = nil, true
	}
	if e.run.cutOff() && err != nil {
		// Nobody may act on this. If the lease or the namespace comes back, so does the run.
		err, result.Superseded = nil, true
	}
	result.Err = admission.WithTimeout(ctx, err)
	result.Excused = result.Err != nil && (e.run.Life.IsCut() || e.Options.Retry.Judge(result.Err).Class == retry.Soon)
	return result, awaits
}

// finish ends a run that returned. The result says what it sent, and what to do once the causes
// that arrived during the run are decided.
func (e execution) finish(result scheduler.Result, awaits bool) scheduler.Result {
	result.Requests = e.endWrites(!awaits && result.Err == nil && !result.Superseded && !e.run.Aside)
	result.ReadsAhead = int(e.run.Writes.Record.ReadsAhead.Load())
	result.Nodes, result.ID = e.run.workflowRuns.records(), e.run.logID(result.Err != nil)
	if e.run.Gone && !awaits {
		e.finalRunSucceeded(&result)
	}
	result.Decided = e.run.Writes.Closing()
	if failure := result.Err; failure != nil && !e.run.Life.IsCut() {
		excused := result.Excused
		result.Decided = func() { e.run.Writes.Close(); e.followUp(failure, excused) }
	}
	return result
}

// endWrites ends what a run reads and writes, and returns the requests that it sent.
func (e execution) endWrites(succeeded bool) []timeline.Request {
	e.run.Ended.Store(true)
	requests := e.run.Writes.End()
	e.leave(succeeded)
	e.Sources.Leave(&e.run.visit, e.run.uid())
	e.letGoIfGone(incarnation{e.run.Key, e.run.uid()})
	return requests
}

// goThrough is a run without its end.
func (e execution) goThrough(ctx context.Context, shared trc.Object) (scheduler.Result, error) {
	if resolved, err := e.resolve(ctx); resolved || err != nil {
		// The outcome of earlier writes may change what a run sees, so the run is repeated.
		return scheduler.Result{Superseded: err == nil}, err
	}
	if !e.run.Gone && e.pause.holds(shared) {
		e.run.Aside = true
		return e.primary().showPaused(ctx, shared)
	}
	return e.lifecycle(ctx, shared)
}

// apart lets a final run go through in a goroutine of its own. If the author's code ends that
// goroutine, the run fails as any other does: the primary that has the name next waits for its end.
func apart(e execution, ctx context.Context, last trc.Object) (result scheduler.Result, err error) {
	if failure := safely.Apart(func() { result, err = e.goThrough(ctx, last) }); failure != nil {
		return scheduler.Result{}, failure
	}
	return result, err
}

// cutOff reports whether the run was ended for a reason that is no failure of its own: the term of
// leadership is lost, or a namespace that it reads is no longer watched.
func (c *Run) cutOff() bool {
	return c.Writes.LostLease() || errors.Is(c.Life.Cause(), admission.ErrNamespacesChanged)
}

// resolve finds out the outcome of writes that the last run of the primary could not learn.
// Otherwise this run could begin with a view that is older than these writes.
func (e execution) resolve(ctx context.Context) (resolved bool, err error) {
	left, any := e.states.takeUnresolved(incarnation{e.run.Key, e.run.Writes.Primary.Object.GetUID()})
	if !any {
		return false, nil
	}
	resolved, err = e.run.Writes.ResolveAll(ctx, &left, e.Stores())
	if !left.IsEmpty() {
		e.keep(left)
	}
	return resolved, err
}

// leave keeps the writes of unknown outcome for the next run. Unless the run succeeded, it also
// keeps the objects of earlier runs that this run has not asked for.
func (e execution) leave(succeeded bool) {
	if left := e.run.Writes.Leftover(succeeded); !left.IsEmpty() {
		e.keep(left)
	}
}

// keep keeps writes for the next run of the same incarnation. Another primary of the same name does
// not get them.
func (e execution) keep(left write.Leftovers) {
	key := e.run.Key
	e.states.keepUnresolved(incarnation{key, left.UID}, left)
	if e.Options.AllEvents && e.Filters.Remove == nil && e.Filters.Every == nil && e.Store.Covers(key.Namespace) && !e.finalRuns.WasRemembered(left.UID) {
		return // the final run of the primary needs them, and drops them, once the deletion is delivered
	}
	// If the primary was deleted during the run, the deletion found nothing to drop.
	if e.isGone(key, left.UID) {
		e.states.takeUnresolved(incarnation{key, left.UID})
	}
}

// newRun makes a run, without the primary.
func (c *Controller) newRun(life context.Context, key trc.Key, due scheduler.Run) *Run {
	rc := c.author.NewRun()
	rc.Controller, rc.Key, rc.Due = c, key, due
	rc.visit.Key, rc.visit.Ended = key, &rc.Ended
	rc.Life.Begin(life, c.Options.RunTimeout, rc)
	rc.Writes.Begin(&c.writeConfig, c.ledgerWriter(key), c.Operator.Cluster.Fence.Current(), c.Records.Wanted(), c.Operator.Calls)
	return rc
}

// lifecycle decides between cleanup and reconcile. It adds the finalizer before the author's first
// side effect.
func (e execution) lifecycle(ctx context.Context, shared trc.Object) (scheduler.Result, error) {
	before := shared
	shared, err := e.primary().clearUndecodable(ctx, before)
	if err != nil {
		return scheduler.Result{}, err
	}
	onlyClears := e.primary().onlyClears(before, shared)
	if shared, err = e.primary().clearPaused(ctx, shared); err != nil {
		return scheduler.Result{}, err
	}
	if onlyClears {
		e.run.Aside = true
		return scheduler.Result{Gone: true}, nil // like no run at all, as the filter wants
	}
	e.run.Writes.Primary.Object = shared
	if shared.GetDeletionTimestamp() != nil && !e.Options.AllEvents {
		if !e.Cleans() || !e.finalizer.isOn(shared) {
			e.notices.emitFinalizerLeftOver(e.run, shared)
			return scheduler.Result{}, nil
		}
		e.run.Primary = shared.DeepCopyObject().(trc.Object)
		return e.cleanup(ctx)
	}
	read := shared
	if e.needsFinalizer(shared) {
		if !e.run.Writes.LostLease() && !e.finalizer.isOn(shared) {
			e.notices.emitFinalizerRemoved(shared, e.run.Due.Causes)
		}
		withFinalizer, err := e.primary().addFinalizer(ctx, shared)
		if err != nil {
			return scheduler.Result{}, err
		}
		read, e.run.Writes.Primary.Object = withFinalizer, withFinalizer
		e.run.Writes.Primary.Hold(withFinalizer)
	}
	e.run.Primary = read.DeepCopyObject().(trc.Object)
	return e.reconcileAuthor(ctx, read)
}

func (e execution) cleanup(ctx context.Context) (scheduler.Result, error) {
	if err := e.cleanupWorkflow(ctx); err != nil {
		return scheduler.Result{}, err
	}
	control, err := Deletion{Kind: RemovesFinalizer}, error(nil)
	if e.HasCleanup {
		control, err = e.callCleanup(ctx)
	}
	if err := cmp.Or(err, control.validate(), e.run.cutShort(ctx)); err != nil {
		return scheduler.Result{}, err
	}
	if control.Kind == KeepsFinalizer {
		return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule, Superseded: e.metConflict()}, nil
	}
	if remains, err := e.notGone(); remains {
		return scheduler.Result{}, err
	}
	if err := e.primary().removeFinalizer(ctx, e.run.Writes.Primary.Object); err != nil {
		return scheduler.Result{}, err
	}
	e.notices.emitFinalizerLeftOver(e.run, e.run.Writes.Primary.Object)
	return scheduler.Result{}, nil
}

// reconcileAuthor calls the author and carries out the result. read is the primary as the author
// got it. Changes are computed against it.
func (e execution) reconcileAuthor(ctx context.Context, read trc.Object) (scheduler.Result, error) {
	if err := e.reconcileWorkflow(ctx); err != nil {
		return e.failed(ctx, read, err)
	}
	control, err := e.callReconcile(ctx)
	if err != nil && control.asks() {
		e.logDropped(err)
	}
	if err := cmp.Or(err, e.run.cutShort(ctx)); err != nil {
		return e.failed(ctx, read, err)
	}
	if err := e.primary().carryOut(ctx, read, control); err != nil {
		return e.failed(ctx, read, err)
	}
	return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule, Superseded: e.metConflict()}, nil
}

// caught turns a panic of the author's into an error. This happens before the scheduler would do
// it, so that an ErrorStatusHandler is called, and that the record names the writes before the
// panic.
func caught(err *error) {
	if value := recover(); value != nil {
		*err = scheduler.NewPanicError(value)
	}
}

func (e execution) callReconcile(ctx context.Context) (control Update, err error) {
	defer caught(&err)
	control, err = e.author.Reconcile(ctx, e.run)
	return control, PassError(author.Sound(err))
}

func (e execution) callCleanup(ctx context.Context) (control Deletion, err error) {
	defer caught(&err)
	control, err = e.author.Cleanup(ctx, e.run)
	return control, PassError(author.Sound(err))
}

func (e execution) callErrorStatus(ctx context.Context, failure error) (control ErrorStatus, err error) {
	defer caught(&err)
	return e.author.ErrorStatus(ctx, e.run, failure), nil
}

// isNoFailure reports whether err is a reason to run again, soon or when a source is filled. Such a
// run counts as no attempt and is not shown as a failure.
func isNoFailure(p retry.Policy, err error) bool {
	return onlyConflicts(err) || onlyNotSynced(err) || p.Judge(err).Class == retry.Soon
}

// logDropped logs, at most once a minute, that the control that Reconcile returned with an error is
// not carried out.
func (e execution) logDropped(err error) {
	if !e.ShowsErrors && !isNoFailure(e.Options.Retry, err) && e.notices.dropped.may() {
		e.run.Logger().Info("the UpdateControl that Reconcile returned with an error is not written: "+
			"implement ErrorStatusHandler to write a status when a run fails", "error", err.Error())
	}
}

func (e execution) failed(ctx context.Context, read trc.Object, failure error) (scheduler.Result, error) {
	if !e.ShowsErrors || isNoFailure(e.Options.Retry, failure) || e.run.cutOff() || e.run.Life.IsCut() {
		return scheduler.Result{}, failure
	}
	if ctx.Err() != nil && e.run.Life.Whole().Err() == nil {
		// The run's own deadline has passed. The status must show this, too.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(e.run.Life.Whole(), errorStatusTime)
		defer cancel()
	}
	control, err := e.callErrorStatus(ctx, failure)
	if err != nil {
		return scheduler.Result{}, errors.Join(failure, err)
	}
	if control.Status && !e.run.Gone {
		err := e.primary().carryOut(ctx, read, Update{Object: control.Object, Status: true})
		switch {
		case err == nil:
		case control.NoRetry && isNoFailure(e.Options.Retry, err):
			return scheduler.Result{}, err // no retry would write it
		case !onlyConflicts(err):
			return scheduler.Result{}, errors.Join(failure, err)
		}
	}
	if control.NoRetry {
		e.run.Logger().V(1).Info("failure handled by ErrorStatus", "error", failure.Error())
		return scheduler.Result{RescheduleAfter: control.RescheduleIn, RescheduleNow: control.Reschedule}, nil
	}
	return scheduler.Result{}, failure
}
