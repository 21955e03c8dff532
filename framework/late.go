package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
)

// LatePolicy is what becomes of a controller whose secondaries could not be read within [Secondary.SyncTimeout] of its
// start.
type LatePolicy int

const (
	// LateByStartPolicy is the default: what [OperatorOptions.StartPolicy] says.
	LateByStartPolicy LatePolicy = iota
	// LateFails ends [Operator.Run] with an error.
	LateFails
	// LateWaits has the controller wait for them; [Operator.Ready] and the log say so.
	LateWaits
	// LateGoesOn has the controller start without them, as for a cluster that is not always there. Reads of them are
	// errors that wrap [ErrNotRead] until all are known: half a picture is never shown. Then all primaries are due.
	// [Operator.Ready] says what is missing. It cannot be combined with [Referred].
	LateGoesOn
)

// ErrNotRead is what reads of secondaries return, with the reason, while these are not known; see [LateGoesOn].
var ErrNotRead = errors.New("framework: the secondaries have not been read yet")

// patience is how long the start of a controller waits for a source.
type patience struct {
	timeout time.Duration // 0: the operator's
	late    LatePolicy
}

// impatient is an error of a source with a patience of its own.
type impatient struct {
	error
	patience
}

func (i *impatient) Unwrap() error { return i.error }

// patienceOf is how long to wait for what an error is about.
func patienceOf(err error) patience {
	var i *impatient
	if errors.As(err, &i) {
		return i.patience
	}
	return patience{}
}

func (p patience) limit(of *Operator) time.Duration {
	if p.timeout > 0 {
		return p.timeout
	}
	return of.options.SyncTimeout
}

// isBounded tells whether the operator fails when the time is up; missed is set if a kind was not served.
func (p patience) isBounded(op *Operator, missed bool) bool {
	switch p.late {
	case LateFails:
		return true
	case LateWaits, LateGoesOn:
		return false
	}
	return op.isBounded(missed)
}

// check reports what is wrong with a source's patience.
func (p patience) check(refers bool) error {
	switch {
	case p.timeout < 0:
		return fmt.Errorf("SyncTimeout %v: must not be negative", p.timeout)
	case p.late < LateByStartPolicy || p.late > LateGoesOn:
		return fmt.Errorf("Late %d: must be LateByStartPolicy, LateFails, LateWaits or LateGoesOn", p.late)
	case p.late == LateGoesOn && refers:
		return errors.New("Late: LateGoesOn cannot be combined with Referred")
	}
	return nil
}

// latecomer is secondaries that a controller may run without.
type latecomer struct {
	description secondaryDescription
	ready       chan struct{} // closed once they are known

	mu       sync.Mutex // guards below; a leaf
	informer *eventsource.Informer
	store    *sharedStore
	reason   error // why they are not known
	without  bool  // the controller has gone on without them
	ended    bool
	stop     func()
}

func newLatecomer(d secondaryDescription) *latecomer {
	return &latecomer{description: d, ready: make(chan struct{}), reason: errUnfilled}
}

// current returns the source, or why nothing can be read.
func (l *latecomer) current() (*eventsource.Informer, error) {
	l.mu.Lock()
	informer, store, reason := l.informer, l.store, l.reason
	l.mu.Unlock()
	if informer != nil && store.isSynced() && store.Listed() {
		return informer, nil
	}
	if store != nil && store.Err() != nil {
		reason = store.Err()
	}
	return nil, fmt.Errorf("%w: secondary %q%s: %w", ErrNotRead, l.description.name, l.description.cluster.place(), reason)
}

func (l *latecomer) fail(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = reason
}

func (l *latecomer) storeNow() *sharedStore {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// end stops what was started, and keeps it from being.
func (l *latecomer) end() {
	l.mu.Lock()
	stop := l.stop
	l.ended, l.stop = true, nil
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// patienceFor is how long the start waits for one of what is read: the primaries come first, then the secondaries in order.
func (c *controller[P]) patienceFor(read int) patience {
	for _, d := range c.secondaries {
		if c.late[d.source] != nil {
			continue
		}
		if read--; read == 0 {
			return d.patience
		}
	}
	return patience{}
}

// attend sees to the secondaries that the controller may run without, until they are known.
func (c *controller[P]) attend(life *life) {
	for _, late := range c.late {
		life.stores.Go(func() { c.attendTo(life, late) })
	}
}

func (c *controller[P]) attendTo(life *life, late *latecomer) {
	ctx, poll := life.background, kindPoll
	for {
		err := c.find(ctx, late)
		if err == nil {
			break
		}
		late.fail(err)
		if errors.Is(err, errMisuse) || !pause(ctx, poll.Step()) {
			return
		}
	}
	store, err := c.setUpLate(life, late)
	if err != nil {
		late.fail(err)
		return
	}
	select {
	case <-store.Synced():
	case <-ctx.Done():
		return
	}
	store.told(ctx)
	late.mu.Lock()
	close(late.ready)
	without := late.without
	late.mu.Unlock()
	if without {
		c.offer(c.store.Keys(""), fmt.Sprintf("secondaries %q are known now", late.description.name))
	}
}

// find asks for the resource once.
func (c *controller[P]) find(ctx context.Context, late *latecomer) (err error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	d := &late.description
	d.resource, err = d.cluster.resourceOf(ctx, d.object, d.gvk)
	return err
}

// setUpLate has the cache fed and the source started, in the namespaces of this moment.
func (c *controller[P]) setUpLate(life *life, late *latecomer) (*sharedStore, error) {
	c.operator.changing.Lock()
	defer c.operator.changing.Unlock()
	informer, store, err := c.informerFor(late.description, c.namespacesNow())
	if err != nil {
		return nil, err
	}
	stop, err := informer.Start(sink[P]{c})
	if err != nil {
		return nil, err
	}
	late.mu.Lock()
	ended := late.ended
	late.informer, late.store, late.stop = informer, store, stop
	late.mu.Unlock()
	if ended {
		stop()
	}
	life.feed([]*sharedStore{store}) // not before: a run that this makes due is to find the source
	return store, nil
}

// awaitLate waits for them for as long as they may take.
func (c *controller[P]) awaitLate(ctx context.Context) {
	began := time.Now()
	for _, late := range c.late {
		timer := time.NewTimer(time.Until(began.Add(late.description.patience.limit(c.operator))))
		select {
		case <-late.ready:
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		late.mu.Lock()
		late.without = !isClosed(late.ready)
		late.mu.Unlock()
		if _, err := late.current(); err != nil && ctx.Err() == nil {
			c.operator.logger.Info("starts without secondaries", "controller", c.name, "reason", err.Error())
		}
	}
}

// awaitLateIn makes primaries due once what they read in a namespace that was added is known.
func (c *controller[P]) awaitLateIn(ctx context.Context, added string) {
	for _, late := range c.late {
		store := late.storeNow()
		if store == nil || !store.key.follows {
			continue
		}
		select {
		case <-store.Filled(added):
		case <-ctx.Done():
			return
		}
		store.told(ctx)
		c.offer(c.store.Keys(added), fmt.Sprintf("secondaries %q of the namespace are known now", late.description.name))
	}
}

// notRead are the secondaries that the controller runs without now, and why.
func (c *controller[P]) notRead() (all []error) {
	for _, late := range c.late {
		if _, err := late.current(); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// lateInformer is the source of secondaries that the controller may run without.
func (c *controller[P]) lateInformer(secondary SecondarySource) (*eventsource.Informer, error) {
	if late := c.late[secondary]; late != nil {
		return late.current()
	}
	return nil, c.unknownSecondary(secondary)
}

// pause waits, and tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
