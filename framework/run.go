package framework

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// errorStatusTime is what an ErrorStatusHandler gets if the run has used up its time.
const errorStatusTime = 10 * time.Second

// reconcile is the life of one run, from reading the primary to carrying out what the author asked
// for. It is what the scheduler runs.
func (c *controller[P]) reconcile(life context.Context, key trc.Key, run scheduler.Run) (result scheduler.Result) {
	life, cancel := context.WithCancel(life)
	defer cancel()
	if !c.gate.enter(key, cancel) { // it will be offered again when the namespace is filled
		return scheduler.Result{Gone: true}
	}
	defer c.gate.leave(key)
	shared, gone := c.departures.first(key), true
	if shared == nil {
		shared, gone = c.store.Get(key), false
	}
	if shared == nil { // or set aside: then it will come back as an addition
		return scheduler.Result{Gone: true}
	}
	c.inFlight.begin(key, time.Now().Add(c.options.RunTimeout))
	defer c.inFlight.end(key)
	rc := c.newContext(key, shared, run)
	ctx, end := c.withDeadline(life, rc)
	defer end()
	rc.life, rc.gone, rc.write.ownerGone = life, gone, gone
	ctx = logr.NewContext(ctx, rc.logger)
	if !gone {
		rc.write.noteReads(c.store.Store, shared)
	}
	// Deferred so that a run that ends its goroutine ends the writer too.
	returns := false
	defer func() {
		rc.ended.Store(true)
		result.Requests, result.ReadsAhead = rc.write.end(), int(rc.write.readsAhead.Load())
		c.leave(key, rc.write)
		if gone && returns {
			c.depart(rc, &result)
		}
		if result.Decided = rc.write.close; !returns {
			rc.write.close() // nobody will get the result
		}
	}()
	if resolved, err := c.resolve(ctx, rc); resolved || err != nil {
		// What became of the former run's writes may change what a run sees: it begins anew.
		returns = true
		return scheduler.Result{Err: err, Superseded: err == nil}
	}
	result, result.Err = c.lifecycle(ctx, rc, shared)
	returns = true
	if onlyConflicts(result.Err) && ctx.Err() == nil {
		// Not a failure, but a reason to look again; what there is to see has been read already.
		rc.logger.V(1).Info("conflict, running again", "conflict", result.Err.Error())
		result.Err, result.Superseded = nil, true
	}
	if rc.write.deposed() && result.Err != nil {
		// Nobody may act on this any more; should the lease come back, the run does, too.
		result.Err, result.Superseded = nil, true
	}
	if result.Err = withTimeout(ctx, result.Err); result.Err != nil {
		failure, ends := result.Err, life.Err() != nil
		result.Failed = func(last bool) { c.settleFailure(rc, failure, last, ends) }
	}
	return result
}

// resolve finds out what became of writes whose fate the last run of the primary could not learn, so that
// this one does not begin with a view older than they are.
func (c *controller[P]) resolve(ctx context.Context, rc *Context[P]) (resolved bool, err error) {
	found, any := c.unresolved.LoadAndDelete(rc.key)
	if !any {
		return false, nil
	}
	left := found.(leftover)
	if left.of != rc.write.owner.GetUID() {
		return false, nil // nobody waits for them any more
	}
	for len(left.writes) > 0 {
		// What another leader may have undone since must not be repeated. It is no longer on its way: a lease is
		// longer than that.
		left.writes[0].creates = left.writes[0].creates && left.in == rc.write.term
		if err := rc.write.resolve(ctx, left.writes[0]); err != nil {
			c.keep(rc.key, left)
			return false, err
		}
		left.writes = left.writes[1:]
	}
	return true, nil
}

// leftover is the writes of unknown fate that runs of one incarnation of a primary left.
type leftover struct {
	of     types.UID
	in     *term // the time in office of the run
	writes []write
}

// leave keeps what the run could not learn the fate of for the next one.
func (c *controller[P]) leave(key trc.Key, w *writer) {
	if len(w.unresolved) > 0 {
		c.keep(key, leftover{w.owner.GetUID(), w.term, w.unresolved})
	}
}

// keep keeps writes for the next run of that very primary: another one of its name has no part in them.
func (c *controller[P]) keep(key trc.Key, left leftover) {
	c.unresolved.Store(key, left)
	if c.options.AllEvents && c.filters.remove == nil && c.filters.every == nil {
		return // the last run of the primary needs them, and forgets them
	}
	// Had the primary gone during the run, there was nothing to forget when that was told.
	now := c.store.Get(key)
	if aside := c.store.SetAside(key); aside != nil {
		now = aside
	}
	if (now == nil || now.GetUID() != left.of) && !c.departures.has(key, left.of) {
		c.unresolved.Delete(key)
	}
}

// newContext makes the context of a run over the primary as it was read, which stays as it is. The author's
// copy of it is made when it is known what the author gets to see.
func (c *controller[P]) newContext(key trc.Key, read trc.Object, run scheduler.Run) *Context[P] {
	values := append(c.logValues(key), "reconcileID", string(uuid.NewUUID()))
	_, finalizer := c.finalizerName()
	return &Context[P]{
		controller: c, key: key, run: run,
		logger: c.operator.logger.WithValues(values...),
		write: &writer{
			cluster: c.operator.cluster, fieldManager: c.options.FieldManager, mode: c.options.SecondaryWrites,
			owner: read, ownerGVK: c.gvk, held: read, finalizer: finalizer, noting: c.keepsRecords(),
			page: c.operator.cluster.ledger.Open(c.ledgerWriter(key)),
			term: c.operator.cluster.office.current(),
		},
	}
}

// lifecycle decides between cleanup and reconcile, and sees to the finalizer before the author's first
// side effect.
func (c *controller[P]) lifecycle(ctx context.Context, rc *Context[P], shared trc.Object) (scheduler.Result, error) {
	if shared.GetDeletionTimestamp() != nil && !c.options.AllEvents {
		if c.cleaner == nil || !c.hasFinalizer(shared) {
			return scheduler.Result{}, nil
		}
		rc.primary = copyOf[P](shared)
		return c.cleanup(ctx, rc)
	}
	read := shared
	if c.needsFinalizer(shared) {
		c.tellOfFinalizer(shared, rc.run.Causes)
		withFinalizer, err := c.addFinalizer(ctx, rc.write, shared)
		if err != nil {
			return scheduler.Result{}, err
		}
		read, rc.write.owner = withFinalizer, withFinalizer
		rc.write.hold(withFinalizer)
	}
	rc.primary = copyOf[P](read)
	return c.reconcileAuthor(ctx, rc, read)
}

func (c *controller[P]) cleanup(ctx context.Context, rc *Context[P]) (scheduler.Result, error) {
	control, err := c.callCleanup(ctx, rc)
	if err != nil {
		return scheduler.Result{}, err
	}
	if err := control.validate(); err != nil {
		return scheduler.Result{}, err
	}
	if control.keep {
		return scheduler.Result{RescheduleAfter: control.rescheduleIn}, nil
	}
	return scheduler.Result{}, c.removeFinalizer(ctx, rc.write, rc.write.owner)
}

// reconcileAuthor calls the author and carries out the result. read is the primary as the author got
// it, against which changes are computed.
func (c *controller[P]) reconcileAuthor(ctx context.Context, rc *Context[P], read trc.Object) (scheduler.Result, error) {
	control, err := c.callReconcile(ctx, rc)
	if err == nil {
		err = control.validate()
	}
	if err != nil {
		return c.failed(ctx, rc, read, err)
	}
	if err := c.carryOut(ctx, rc, read, control); err != nil {
		return c.failed(ctx, rc, read, err)
	}
	return scheduler.Result{RescheduleAfter: control.rescheduleIn, RescheduleNow: control.reschedule}, nil
}

// caught turns a panic of the author's into an error here already: an ErrorStatusHandler waits for it,
// and the record is to name the writes before it.
func caught(err *error) {
	if value := recover(); value != nil {
		*err = scheduler.NewPanicError(value)
	}
}

func (c *controller[P]) callReconcile(ctx context.Context, rc *Context[P]) (control UpdateControl[P], err error) {
	defer caught(&err)
	return c.reconciler.Reconcile(ctx, rc.primary, rc)
}

func (c *controller[P]) callCleanup(ctx context.Context, rc *Context[P]) (control DeleteControl, err error) {
	defer caught(&err)
	return c.cleaner.Cleanup(ctx, rc.primary, rc)
}

func (c *controller[P]) callErrorStatus(ctx context.Context, rc *Context[P], failure error) (control ErrorStatusControl[P], err error) {
	defer caught(&err)
	return c.errorHandler.ErrorStatus(ctx, rc.primary, rc, failure), nil
}

func (c *controller[P]) failed(ctx context.Context, rc *Context[P], read trc.Object, failure error) (scheduler.Result, error) {
	if c.errorHandler == nil || onlyConflicts(failure) {
		return scheduler.Result{}, failure
	}
	if ctx.Err() != nil && rc.life.Err() == nil {
		// The run's own deadline has passed; that, too, is to be shown.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(logr.NewContext(rc.life, rc.logger), errorStatusTime)
		defer cancel()
	}
	control, err := c.callErrorStatus(ctx, rc, failure)
	if err == nil {
		err = control.validate()
	}
	if err != nil {
		return scheduler.Result{}, errors.Join(failure, err)
	}
	if control.status && !rc.gone {
		err := c.carryOut(ctx, rc, read, UpdateControl[P]{object: control.object, status: true})
		switch {
		case err == nil:
		case !onlyConflicts(err):
			return scheduler.Result{}, errors.Join(failure, err)
		case control.noRetry:
			return scheduler.Result{}, err // no retry would write it
		}
	}
	if control.noRetry {
		rc.logger.V(1).Info("failure handled by ErrorStatus", "error", failure.Error())
		return scheduler.Result{RescheduleAfter: control.rescheduleIn}, nil
	}
	return scheduler.Result{}, failure
}
