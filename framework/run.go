package framework

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// errorStatusTime is what an ErrorStatusHandler gets if the run has used up its time.
const errorStatusTime = 10 * time.Second

// reconcile is the life of one run, from reading the primary to carrying out what the author asked
// for. It is what the scheduler runs.
func (c *controller) reconcile(life context.Context, key trc.Key, run scheduler.Run) (result scheduler.Result) {
	rc := c.newContext(life, key, run)
	if !c.gate.Enter(key, &rc.life) { // it will be offered again when the namespace is filled
		return scheduler.Result{Gone: true}
	}
	defer c.gate.Leave(&rc.life)
	shared, gone := c.departures.Begin(key), true
	if shared == nil {
		shared, gone = c.store.Get(key), false
	}
	if shared == nil {
		if u := c.store.SetAside(key); u != nil { // it will come back as an addition
			return c.showAside(rc, u)
		}
		return scheduler.Result{Gone: true}
	}
	ctx := context.Context(&rc.life)
	defer rc.life.End()
	rc.gone, rc.write.OwnerGone = gone, gone
	// The primary as it was read stays as it is: the author's copy is made when it is known what the author gets to see.
	rc.write.Owner = shared
	rc.write.Hold(shared)
	if !gone {
		rc.write.RecordReads(c.store.Store, shared)
	}
	turns := c.loops.begin(key, run.Causes)
	// Deferred so that a run that ends its goroutine ends the writer too.
	returns, awaits := false, false
	defer func() {
		rc.ended.Store(true)
		result.Requests, result.ReadsAhead = rc.write.End(), int(rc.write.ReadsAhead.Load())
		result.Nodes, result.ID = rc.passes.notes(), rc.logID(result.Err != nil || !returns)
		c.leave(key, rc.write, returns && !awaits && result.Err == nil && !result.Superseded)
		c.added.leave(rc)
		if gone && returns && !awaits {
			c.depart(rc, &result)
		}
		if !returns {
			rc.write.Close() // nobody will get the result
			return
		}
		result.Decided = rc.write.Closing()
		if failure := result.Err; failure != nil && !rc.life.IsCut() {
			excused := result.Excused
			result.Decided = func() { rc.write.Close(); c.followUp(rc, failure, excused) }
		}
	}()
	result, result.Err = c.goThrough(ctx, rc, shared)
	returns = true
	if onlyConflicts(result.Err) && ctx.Err() == nil {
		// Not a failure, but a reason to look again; what there is to see has been read already.
		rc.Logger().V(1).Info("conflict, running again", "conflict", result.Err.Error())
		result.Err, result.Superseded = nil, true
	}
	if onlyNotSynced(result.Err) && ctx.Err() == nil {
		// Not a failure either: what it waits for brings the next run.
		rc.Logger().V(1).Info("waits for a source", "reason", result.Err.Error())
		result.Err, awaits = nil, true
	}
	if rc.cutOff() && result.Err != nil {
		// Nobody may act on this any more; should the lease or the namespace come back, the run does, too.
		result.Err, result.Superseded = nil, true
	}
	result.Err = admission.WithTimeout(ctx, result.Err)
	result.Excused = result.Err != nil && (rc.life.IsCut() || c.options.Retry.Judge(result.Err).Class == retry.Soon)
	rc.write.AwaitDelivery(life)
	c.followLoop(rc, turns, &result)
	return result
}

// goThrough is a run without what follows from its end.
func (c *controller) goThrough(ctx context.Context, rc *run, shared trc.Object) (scheduler.Result, error) {
	if resolved, err := c.resolve(ctx, rc); resolved || err != nil {
		// What became of the former run's writes may change what a run sees: it begins anew.
		return scheduler.Result{Superseded: err == nil}, err
	}
	return c.lifecycle(ctx, rc, shared)
}

// cutOff tells whether the run was ended for what is no failure of its own: its term in office is over, or what it
// reads is no longer watched.
func (c *run) cutOff() bool {
	return c.write.LostLease() || errors.Is(c.life.Cause(), admission.ErrNamespacesChanged)
}

// resolve finds out what became of writes whose fate the last run of the primary could not learn, so that
// this one does not begin with a view older than they are.
func (c *controller) resolve(ctx context.Context, rc *run) (resolved bool, err error) {
	found, any := c.unresolved.LoadAndDelete(incarnation{rc.key, rc.write.Owner.GetUID()})
	if !any {
		return false, nil
	}
	left := found.(write.Leftovers)
	resolved, err = rc.write.ResolveAll(ctx, &left, c.cachesNow())
	if !left.IsEmpty() {
		c.keep(rc.key, left)
	}
	return resolved, err
}

// leave keeps what the run could not learn the fate of for the next one, and, unless the run succeeded, what
// it has not asked for of what former ones made.
func (c *controller) leave(key trc.Key, w *write.Writer, succeeded bool) {
	if left := w.Leftover(succeeded); !left.IsEmpty() {
		c.keep(key, left)
	}
}

// keep keeps writes for the next run of that very primary: another one of its name has no part in them.
func (c *controller) keep(key trc.Key, left write.Leftovers) {
	c.unresolved.Store(incarnation{key, left.UID}, left)
	if c.options.AllEvents && c.filters.remove == nil && c.filters.every == nil && c.store.Covers(key.Namespace) {
		return // the last run of the primary needs them, and forgets them
	}
	// Had the primary gone during the run, there was nothing to forget when that was told.
	now := c.store.Get(key)
	if aside := c.store.SetAside(key); aside != nil {
		now = aside
	}
	if (now == nil || now.GetUID() != left.UID) && !c.departures.Has(key, left.UID) {
		c.unresolved.Delete(incarnation{key, left.UID})
	}
}

// incarnation is one of the primaries that have a name one after the other.
type incarnation struct {
	key trc.Key
	uid types.UID
}

func incarnationOf(o trc.Object) incarnation { return incarnation{trc.KeyOf(o), o.GetUID()} }

// forgetUnresolved forgets what all primaries of a name have left.
func (c *controller) forgetUnresolved(key trc.Key) {
	c.unresolved.Range(func(of, _ any) bool {
		if of.(incarnation).key == key {
			c.unresolved.Delete(of)
		}
		return true
	})
}

// newContext makes the context of a run, but for the primary.
func (c *controller) newContext(life context.Context, key trc.Key, due scheduler.Run) *run {
	rc := c.author.newRun()
	rc.controller, rc.key, rc.due = c, key, due
	rc.life.Begin(life, c.options.RunTimeout, rc)
	rc.write.Begin(&c.manner, c.ledgerWriter(key), c.operator.cluster.Fence.Current(), c.keepsRecords(), c.operator.calls)
	return rc
}

// lifecycle decides between cleanup and reconcile, and sees to the finalizer before the author's first
// side effect.
func (c *controller) lifecycle(ctx context.Context, rc *run, shared trc.Object) (scheduler.Result, error) {
	before := shared
	shared, err := c.fits(ctx, rc, before)
	if err != nil {
		return scheduler.Result{}, err
	}
	if c.onlyFits(rc, before, shared) {
		return scheduler.Result{Gone: true}, nil // as if it had had no run, which is what its filter says
	}
	rc.write.Owner = shared
	if shared.GetDeletionTimestamp() != nil && !c.options.AllEvents {
		if !c.cleans() || !c.hasFinalizer(shared) {
			c.tellOfLeftOver(rc, shared)
			return scheduler.Result{}, nil
		}
		rc.primary = shared.DeepCopyObject().(Object)
		return c.cleanup(ctx, rc)
	}
	read := shared
	if c.needsFinalizer(shared) {
		if !rc.write.LostLease() && !c.hasFinalizer(shared) {
			c.tellOfFinalizer(shared, rc.due.Causes)
		}
		withFinalizer, err := c.addFinalizer(ctx, rc.write, shared)
		if err != nil {
			return scheduler.Result{}, err
		}
		read, rc.write.Owner = withFinalizer, withFinalizer
		rc.write.Hold(withFinalizer)
	}
	rc.primary = read.DeepCopyObject().(Object)
	return c.reconcileAuthor(ctx, rc, read)
}

func (c *controller) cleanup(ctx context.Context, rc *run) (scheduler.Result, error) {
	if err := c.cleanupWorkflow(ctx, rc); err != nil {
		return scheduler.Result{}, err
	}
	control, err := deletion{kind: removesFinalizer}, error(nil)
	if c.hasCleanup {
		control, err = c.callCleanup(ctx, rc)
	}
	if err := cmp.Or(err, control.validate(), rc.cutShort(ctx)); err != nil {
		return scheduler.Result{}, err
	}
	if control.kind == keepsFinalizer {
		return scheduler.Result{RescheduleAfter: control.rescheduleIn, RescheduleNow: control.reschedule, Superseded: c.hasMet(rc)}, nil
	}
	if remains, err := c.notGone(rc); remains {
		return scheduler.Result{}, err
	}
	if err := c.removeFinalizer(ctx, rc.write, rc.write.Owner); err != nil {
		return scheduler.Result{}, err
	}
	c.tellOfLeftOver(rc, rc.write.Owner)
	return scheduler.Result{}, nil
}

// reconcileAuthor calls the author and carries out the result. read is the primary as the author got
// it, against which changes are computed.
func (c *controller) reconcileAuthor(ctx context.Context, rc *run, read trc.Object) (scheduler.Result, error) {
	if err := c.reconcileWorkflow(ctx, rc); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	control, err := c.callReconcile(ctx, rc)
	if err != nil && control.asks() {
		c.tellOfDropped(rc, err)
	}
	if err := cmp.Or(err, rc.cutShort(ctx)); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	if err := c.carryOut(ctx, rc, read, control); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	return scheduler.Result{RescheduleAfter: control.rescheduleIn, RescheduleNow: control.reschedule, Superseded: c.hasMet(rc)}, nil
}

// caught turns a panic of the author's into an error here already: an ErrorStatusHandler waits for it,
// and the record is to name the writes before it.
func caught(err *error) {
	if value := recover(); value != nil {
		*err = scheduler.NewPanicError(value)
	}
}

func (c *controller) callReconcile(ctx context.Context, rc *run) (control update, err error) {
	defer caught(&err)
	control, err = c.author.reconcile(ctx, rc)
	return control, passError(author.Sound(err))
}

func (c *controller) callCleanup(ctx context.Context, rc *run) (control deletion, err error) {
	defer caught(&err)
	control, err = c.author.cleanup(ctx, rc)
	return control, passError(author.Sound(err))
}

func (c *controller) callErrorStatus(ctx context.Context, rc *run, failure error) (control errorUpdate, err error) {
	defer caught(&err)
	return c.author.errorStatus(ctx, rc, failure), nil
}

// isNoFailure tells what is a reason to run again, soon or once something is there, from failures: it is no attempt, and
// not shown as one.
func (c *controller) isNoFailure(err error) bool {
	return onlyConflicts(err) || onlyNotSynced(err) || c.options.Retry.Judge(err).Class == retry.Soon
}

// tellOfDropped says, seldom, that what Reconcile returned beside an error is not carried out.
func (c *controller) tellOfDropped(rc *run, err error) {
	if !c.showsErrors && !c.isNoFailure(err) && c.dropped.may() {
		rc.Logger().Info("what Reconcile returned beside its error is not carried out, a status neither: "+
			"implement ErrorStatusHandler to write one when a run fails", "error", err.Error())
	}
}

func (c *controller) failed(ctx context.Context, rc *run, read trc.Object, failure error) (scheduler.Result, error) {
	if !c.showsErrors || c.isNoFailure(failure) || rc.cutOff() || rc.life.IsCut() {
		return scheduler.Result{}, failure
	}
	if ctx.Err() != nil && rc.life.Whole().Err() == nil {
		// The run's own deadline has passed; that, too, is to be shown.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(rc.life.Whole(), errorStatusTime)
		defer cancel()
	}
	control, err := c.callErrorStatus(ctx, rc, failure)
	if err != nil {
		return scheduler.Result{}, errors.Join(failure, err)
	}
	if control.status && !rc.gone {
		err := c.carryOut(ctx, rc, read, update{object: control.object, status: true})
		switch {
		case err == nil:
		case control.noRetry && c.isNoFailure(err):
			return scheduler.Result{}, err // no retry would write it
		case !onlyConflicts(err):
			return scheduler.Result{}, errors.Join(failure, err)
		}
	}
	if control.noRetry {
		rc.Logger().V(1).Info("failure handled by ErrorStatus", "error", failure.Error())
		return scheduler.Result{RescheduleAfter: control.rescheduleIn, RescheduleNow: control.reschedule}, nil
	}
	return scheduler.Result{}, failure
}
