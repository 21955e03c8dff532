package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// serve opens a source, and closes it when it is removed. It returns when nothing is left of it.
// ctx ends when it is removed.
func (s *Registry) serve(ctx context.Context, l *host.Life, a *entry) {
	if a.supervised != nil {
		s.serveSource(ctx, a)
	} else {
		s.serveSecondary(ctx, l, a)
	}
	<-a.removed // also after an error that no retry helps
	s.of.leaveCluster(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, a)
	close(a.gone)
}

// serveSecondary opens a secondary when its kind is served. It closes it when it is removed and no
// run reads it.
func (s *Registry) serveSecondary(ctx context.Context, l *host.Life, a *entry) {
	d := a.secondary
	found := s.retry(ctx, a, func(ctx context.Context) (err error) {
		ctx, cancel := client.WithRequestTimeout(ctx)
		defer cancel()
		d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK)
		return err
	})
	if !found {
		return
	}
	o, err := s.open(l, a, d)
	if err != nil {
		s.note(a, nil, err)
		return
	}
	defer s.close(o)
	if !isFilled(ctx, o.Store) {
		return
	}
	// Start before runs may read it, so that no change after a read is missed.
	stop, err := o.Informer.Start(held{s, a})
	if err != nil {
		s.note(a, nil, err)
		return
	}
	defer stop()
	// A change that is delivered later would cause a second run of a primary that waited.
	o.Store.AwaitDelivery(ctx, s.of.Name)
	for !s.admit(a, o) {
		if !isFilled(ctx, o.Store) {
			return
		}
		o.Store.AwaitDelivery(ctx, s.of.Name)
	}
	<-ctx.Done()
	select {
	case <-a.unread:
	case <-s.over: // runs that read on ignore that their time has passed
	}
}

// open opens the stores of a secondary, in the namespaces of this moment.
func (s *Registry) open(l *host.Life, a *entry, d source.Description) (*source.Opened, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	o, err := s.of.open(d, fmt.Sprintf("%s/%s#%d", s.of.Name, a.Name, a.serial))
	if err != nil {
		return nil, err
	}
	s.note(a, o.Store, nil)
	l.Feed([]*cache.Store{o.Store})
	return o, nil
}

// close closes what open has opened.
func (s *Registry) close(o *source.Opened) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.of.close(o)
}

// isFilled waits until a store is filled in all its namespaces. It returns false if ctx ends
// before.
func isFilled(ctx context.Context, store *cache.Store) bool {
	for _, namespace := range store.Watching() {
		cache.Await(ctx, store.Filled(namespace))
	}
	return ctx.Err() == nil
}

// admit lets runs read a source and enqueues the primaries that waited for it. It returns false if
// a namespace was added since that is not filled. Runs are kept out of a namespace that is added
// later until it is filled.
func (s *Registry) admit(a *entry, o *source.Opened) bool {
	waiting, ok := s.admitted(a, o)
	s.trigger(a.Name, waiting, "it is filled")
	return ok
}

func (s *Registry) admitted(a *entry, o *source.Opened) (waiting map[trc.Key]bool, ok bool) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, namespace := range o.Store.Watching() {
		select {
		case <-o.Store.Filled(namespace):
		default:
			return nil, false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.isRemoved() {
		return nil, true
	}
	a.opened, waiting, a.waiting = o, a.waiting, nil
	close(a.admitted)
	return waiting, true
}

// held is the sink of a dynamic source. It passes offers on once runs may read the source: earlier
// runs would read nothing.
type held struct {
	registry *Registry
	of       *entry
}

// Offer passes an offer on. Before runs may read the source it records that the primary waits.
// After the source is removed it drops the offer.
func (h held) Offer(primary trc.Key, offer eventsource.Offer) {
	s, a := h.registry, h.of
	s.mu.Lock()
	waits := a.supervised == nil && a.opened == nil && !a.isRemoved()
	if waits {
		a.waiting[primary] = true
	}
	s.mu.Unlock()
	if !waits && !a.isRemoved() {
		s.of.sink().Offer(primary, offer)
	}
}

// serveSource runs a source of the author's until it is removed.
func (s *Registry) serveSource(ctx context.Context, a *entry) {
	for _, before := range a.after { // a source may be started again, but not twice at a time
		cache.Await(ctx, before.gone)
		if ctx.Err() == nil && before.starts && !cache.IsClosed(before.supervised.Ended) {
			s.note(a, nil, errLingers)
			cache.Await(ctx, before.supervised.Ended)
			s.note(a, nil, nil)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if a.supervised.Watcher != nil {
		defer s.of.watchPrimaries(ctx, a.supervised)()
	}
	a.starts = true
	stop := a.supervised.Start(ctx, held{s, a})
	select {
	case <-a.supervised.Synced:
		s.synced(a)
		<-ctx.Done()
	case <-ctx.Done():
	}
	stop()
	if !cache.IsClosed(a.supervised.Ended) {
		s.mu.Lock()
		s.lingering = append(s.lingering, a)
		s.mu.Unlock()
	}
}

var errLingers = errors.New("it was added and removed before, and has not ended yet")

// retry calls do until it succeeds, with the pauses of discovery. It returns false if ctx ends
// before, or if a retry is of no use.
func (s *Registry) retry(ctx context.Context, a *entry, do func(context.Context) error) bool {
	poll := host.KindPoll
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && s.note(a, nil, err) {
			s.of.sourceFails(a.Name, err)
		}
		if errors.Is(err, cache.ErrMisuse) {
			return false
		}
		select {
		case <-time.After(poll.Step()):
		case <-ctx.Done():
		}
	}
	return false
}

// note records the error of a source, or the store that is being filled for it, and reports whether
// the error is new.
func (s *Registry) note(a *entry, filling *cache.Store, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := a.err
	a.filling, a.err = filling, err
	return err != nil && (before == nil || before.Error() != err.Error())
}

// Problem returns why a source cannot be read, nil if nothing is wrong.
func (s *Registry) Problem(a *entry) error {
	s.mu.Lock()
	err, filling, isRead := a.err, a.filling, a.opened != nil
	s.mu.Unlock()
	switch {
	case isRead: // the health of its cache says more
		return nil
	case err != nil:
		return err
	case a.supervised != nil:
		return a.supervised.Err()
	case filling == nil:
		return host.ErrUnfilled
	}
	return cmp.Or(filling.Err(), host.ErrUnfilled)
}

// storeFor returns the cache of a secondary, nil before it is set up.
func (s *Registry) storeFor(a *entry) *cache.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.opened != nil {
		return a.opened.Store
	}
	return a.filling
}

// The methods of Controller that the registry needs.

func (c *Controller) sink() eventsource.Sink { return sink{c} }

func (c *Controller) declared(name string) any {
	for _, d := range c.secondaries {
		if d.Name == name {
			return d
		}
	}
	for _, g := range c.supervised {
		if g.Name == name {
			return g
		}
	}
	return nil
}

func (c *Controller) lasts(name string) bool {
	return c.declared(name) != nil || slices.Contains(c.optional, name)
}

// close closes what open has opened.
func (c *Controller) close(o *source.Opened) {
	if o.Referred != "" {
		c.Store.RemoveIndex(o.Referred)
	}
	c.Operator.Release(o.Store)
}

// leaveCluster gives back the cluster of a removed secondary.
func (c *Controller) leaveCluster(a *entry) {
	if a.supervised == nil {
		c.Operator.LeaveCluster(a.secondary.Config)
	}
}

// watchPrimaries delivers all existing primaries to a source, and their changes from then on. It
// returns after the existing ones are delivered.
func (c *Controller) watchPrimaries(ctx context.Context, g *source.Supervised) (unsubscribe func()) {
	cache.Await(ctx, c.Store.Synced())
	subscription := c.Store.SubscribeAs(trc.Subscriber{
		Handle: func(t trc.Transition) {
			if !isRepeated(t) {
				g.PrimaryChanged(t.Old, t.New)
			}
		},
		Of: c.Name, Apart: true,
	})
	g.Primaries.Store(subscription)
	c.Store.AwaitDelivery(ctx, c.Name)
	return subscription.End
}

// GuestsNow returns the author's sources, declared and dynamic.
func (c *Controller) GuestsNow() []*source.Supervised {
	all := slices.Clone(c.supervised)
	for _, a := range c.Added.Now() {
		if a.supervised != nil {
			all = append(all, a.supervised)
		}
	}
	return all
}

func (c *Controller) sourceFails(source string, err error) {
	c.Operator.Logger.Error(err, "source fails", "controller", c.Name, "source", source)
}

// read is a store that a controller reads. It reads the store until unread is closed, or until the
// operator ends if unread is nil.
type read struct {
	*cache.Store
	unread <-chan struct{}
}

// readsNow returns the stores that runs may read at the moment.
func (c *Controller) readsNow() []read {
	var all []read
	for _, s := range c.reads {
		all = append(all, read{Store: s})
	}
	for _, a := range c.Added.Now() {
		c.Added.mu.Lock()
		if a.opened != nil {
			all = append(all, read{a.opened.Store, a.removed})
		}
		c.Added.mu.Unlock()
	}
	return all
}

// cachesNow returns the stores of readsNow.
func (c *Controller) cachesNow() []*cache.Store {
	var all []*cache.Store
	for _, s := range c.readsNow() {
		all = append(all, s.Store)
	}
	return all
}

func externalCause(source, what string) timeline.Cause {
	return timeline.External{Source: source, ID: what}
}
