package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// attend sees to an addition from its beginning until nothing of it is left. ctx ends when it is removed.
func (s *Registry) attend(ctx context.Context, l *host.Life, a *entry) {
	if a.supervised != nil {
		s.attendSource(ctx, a)
	} else {
		s.attendSecondary(ctx, l, a)
	}
	<-a.removed // also where nothing could be made of it
	s.of.forsake(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, a)
	close(a.gone)
}

// attendSecondary has secondaries read from when their kind is served until they are removed and no run reads them.
func (s *Registry) attendSecondary(ctx context.Context, l *host.Life, a *entry) {
	d := a.secondary
	found := s.again(ctx, a, func(ctx context.Context) (err error) {
		ctx, cancel := client.WithRequestTimeout(ctx)
		defer cancel()
		d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK)
		return err
	})
	if !found {
		return
	}
	o, err := s.set(l, a, d)
	if err != nil {
		s.note(a, nil, err)
		return
	}
	defer s.clear(o)
	if !isFilled(ctx, o.Store) {
		return
	}
	// Before it may be read, so that no change after a read is missed.
	stop, err := o.Informer.Start(held{s, a})
	if err != nil {
		s.note(a, nil, err)
		return
	}
	defer stop()
	o.Store.AwaitDelivery(ctx, s.of.ControllerName()) // what is told after a run has begun that waited for it brings another
	for !s.admit(a, o) {
		if !isFilled(ctx, o.Store) {
			return
		}
		o.Store.AwaitDelivery(ctx, s.of.ControllerName())
	}
	<-ctx.Done()
	select {
	case <-a.unread:
	case <-s.over: // whoever reads on ignores that its time has passed
	}
}

// set begins to watch, in the namespaces of this moment.
func (s *Registry) set(l *host.Life, a *entry, d source.Description) (*source.Opened, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	o, err := s.of.open(d, fmt.Sprintf("%s/%s#%d", s.of.ControllerName(), a.Name, a.serial))
	if err != nil {
		return nil, err
	}
	s.note(a, o.Store, nil)
	l.Feed([]*cache.Store{o.Store})
	return o, nil
}

// clear takes that back.
func (s *Registry) clear(o *source.Opened) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.of.close(o)
}

// isFilled waits until a store is filled, and reports false if ctx ends before.
func isFilled(ctx context.Context, store *cache.Store) bool {
	for _, namespace := range store.Watching() {
		cache.Await(ctx, store.Filled(namespace))
	}
	return ctx.Err() == nil
}

// admit lets runs read an addition, and makes those due that waited for it. It reports false if there are namespaces by
// now that are not filled: of those that come later, runs are kept until they are.
func (s *Registry) admit(a *entry, o *source.Opened) bool {
	waiting, ok := s.admitted(a, o)
	s.offer(a.Name, waiting, "it is filled")
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

// held passes on what an addition offers, once runs may read it: those that come before would do so in vain.
type held struct {
	additions *Registry
	of        *entry
}

// Offer notes, passes on, or drops what is of no use any more.
func (h held) Offer(primary trc.Key, offer eventsource.Offer) {
	s, a := h.additions, h.of
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

// attendSource runs a source of the author's until it is removed.
func (s *Registry) attendSource(ctx context.Context, a *entry) {
	for _, before := range a.after { // it may be any that can be started again, but not twice at a time
		cache.Await(ctx, before.gone)
		if ctx.Err() == nil && before.starts && !isClosed(before.supervised.Ended) {
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
	if !isClosed(a.supervised.Ended) {
		s.mu.Lock()
		s.lingering = append(s.lingering, a)
		s.mu.Unlock()
	}
}

var errLingers = errors.New("it was added and removed before, and has not ended yet")

// again does something until it succeeds, with the pauses of discovery. It reports false if ctx ends before, or if
// trying is of no use.
func (s *Registry) again(ctx context.Context, a *entry, do func(context.Context) error) bool {
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

// note keeps what is wrong with an addition, or what is being filled for it, and reports whether that is news.
func (s *Registry) note(a *entry, filling *cache.Store, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := a.err
	a.filling, a.err = filling, err
	return err != nil && (before == nil || before.Error() != err.Error())
}

// Problem is what is wrong with an addition, nil if nothing is.
func (s *Registry) Problem(a *entry) error {
	s.mu.Lock()
	err, filling, isRead := a.err, a.filling, a.opened != nil
	s.mu.Unlock()
	switch {
	case isRead: // its cache tells of itself
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

// storeFor is the cache of secondaries, nil before it is set up.
func (s *Registry) storeFor(a *entry) *cache.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.opened != nil {
		return a.opened.Store
	}
	return a.filling
}

// What additions need of their controller.

func (c *Controller) SourcesAdded() *Registry { return &c.Added }

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
	return c.declared(name) != nil || slices.Contains(c.late, name)
}

// close takes back what open began.
func (c *Controller) close(o *source.Opened) {
	if o.Referred != "" {
		c.Store.RemoveIndex(o.Referred)
	}
	c.Operator.Release(o.Store)
}

// forsake takes back what was found for an addition that is gone.
func (c *Controller) forsake(a *entry) {
	if a.supervised == nil {
		c.Operator.LeaveCluster(a.secondary.Config)
	}
}

// watchPrimaries tells a source of all primaries there are, and from then on of their changes.
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

// GuestsNow are the author's sources, with those that were added.
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

func (c *Controller) isGone(primary trc.Key, uid types.UID) bool {
	now := c.Store.Get(primary)
	return (now == nil || now.GetUID() != uid) && !c.finalRuns.Has(primary, uid)
}

// read is a store that a controller reads, until unread is closed; for as long as it runs if that is nil.
type read struct {
	*cache.Store
	unread <-chan struct{}
}

// readsNow are the stores that runs read at the moment.
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

// cachesNow are the caches of these.
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
