package framework

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
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// attend sees to an addition from its beginning until nothing of it is left. ctx ends when it is removed.
func (s *addedSources) attend(ctx context.Context, l *life, a *addition) {
	if a.guest != nil {
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
func (s *addedSources) attendSecondary(ctx context.Context, l *life, a *addition) {
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
	o.Store.AwaitDelivery(ctx, s.of.controllerName()) // what is told after a run has begun that waited for it brings another
	for !s.admit(a, o) {
		if !isFilled(ctx, o.Store) {
			return
		}
		o.Store.AwaitDelivery(ctx, s.of.controllerName())
	}
	<-ctx.Done()
	select {
	case <-a.unread:
	case <-s.over: // whoever reads on ignores that its time has passed
	}
}

// set begins to watch, in the namespaces of this moment.
func (s *addedSources) set(l *life, a *addition, d source.Description) (*source.Opened, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	o, err := s.of.open(d, fmt.Sprintf("%s/%s#%d", s.of.controllerName(), a.name, a.serial))
	if err != nil {
		return nil, err
	}
	s.note(a, o.Store, nil)
	l.feed([]*cache.Store{o.Store})
	return o, nil
}

// clear takes that back.
func (s *addedSources) clear(o *source.Opened) {
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
func (s *addedSources) admit(a *addition, o *source.Opened) bool {
	waiting, ok := s.admitted(a, o)
	s.offer(a.name, waiting, "it is filled")
	return ok
}

func (s *addedSources) admitted(a *addition, o *source.Opened) (waiting map[trc.Key]bool, ok bool) {
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
	additions *addedSources
	of        *addition
}

// Offer notes, passes on, or drops what is of no use any more.
func (h held) Offer(primary trc.Key, offer eventsource.Offer) {
	s, a := h.additions, h.of
	s.mu.Lock()
	waits := a.guest == nil && a.opened == nil && !a.isRemoved()
	if waits {
		a.waiting[primary] = true
	}
	s.mu.Unlock()
	if !waits && !a.isRemoved() {
		s.of.sink().Offer(primary, offer)
	}
}

// attendSource runs a source of the author's until it is removed.
func (s *addedSources) attendSource(ctx context.Context, a *addition) {
	for _, before := range a.after { // it may be any that can be started again, but not twice at a time
		cache.Await(ctx, before.gone)
		if ctx.Err() == nil && before.starts && !isClosed(before.guest.Ended) {
			s.note(a, nil, errLingers)
			cache.Await(ctx, before.guest.Ended)
			s.note(a, nil, nil)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if a.guest.Watcher != nil {
		defer s.of.watchPrimaries(ctx, a.guest)()
	}
	a.starts = true
	stop := a.guest.Start(ctx, held{s, a})
	select {
	case <-a.guest.Synced:
		s.synced(a)
		<-ctx.Done()
	case <-ctx.Done():
	}
	stop()
	if !isClosed(a.guest.Ended) {
		s.mu.Lock()
		s.lingering = append(s.lingering, a)
		s.mu.Unlock()
	}
}

var errLingers = errors.New("it was added and removed before, and has not ended yet")

// again does something until it succeeds, with the pauses of discovery. It reports false if ctx ends before, or if
// trying is of no use.
func (s *addedSources) again(ctx context.Context, a *addition, do func(context.Context) error) bool {
	poll := kindPoll
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && s.note(a, nil, err) {
			s.of.sourceFails(a.name, err)
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
func (s *addedSources) note(a *addition, filling *cache.Store, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := a.err
	a.filling, a.err = filling, err
	return err != nil && (before == nil || before.Error() != err.Error())
}

// problem is what is wrong with an addition, nil if nothing is.
func (s *addedSources) problem(a *addition) error {
	s.mu.Lock()
	err, filling, isRead := a.err, a.filling, a.opened != nil
	s.mu.Unlock()
	switch {
	case isRead: // its cache tells of itself
		return nil
	case err != nil:
		return err
	case a.guest != nil:
		return a.guest.Err()
	case filling == nil:
		return errUnfilled
	}
	return cmp.Or(filling.Err(), errUnfilled)
}

// storeFor is the cache of secondaries, nil before it is set up.
func (s *addedSources) storeFor(a *addition) *cache.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.opened != nil {
		return a.opened.Store
	}
	return a.filling
}

// What additions need of their controller.

func (c *controller) sourcesAdded() *addedSources { return &c.added }
func (c *controller) sink() eventsource.Sink      { return sink{c} }

func (c *controller) declared(name string) any {
	for _, d := range c.secondaries {
		if d.Name == name {
			return d
		}
	}
	for _, g := range c.guests {
		if g.Name == name {
			return g
		}
	}
	return nil
}

func (c *controller) lasts(name string) bool {
	return c.declared(name) != nil || slices.Contains(c.late, name)
}

// close takes back what open began.
func (c *controller) close(o *source.Opened) {
	if o.Referred != "" {
		c.store.RemoveIndex(o.Referred)
	}
	c.operator.release(o.Store)
}

// forsake takes back what was found for an addition that is gone.
func (c *controller) forsake(a *addition) {
	if a.guest == nil {
		c.operator.leaveCluster(a.secondary.Config)
	}
}

// watchPrimaries tells a source of all primaries there are, and from then on of their changes.
func (c *controller) watchPrimaries(ctx context.Context, g *source.Supervised) (unsubscribe func()) {
	cache.Await(ctx, c.store.Synced())
	subscription := c.store.SubscribeAs(trc.Subscriber{
		Handle: func(t trc.Transition) {
			if !isRepeated(t) {
				g.PrimaryChanged(t.Old, t.New)
			}
		},
		Of: c.name, Apart: true,
	})
	g.Primaries.Store(subscription)
	c.store.AwaitDelivery(ctx, c.name)
	return subscription.End
}

// guestsNow are the author's sources, with those that were added.
func (c *controller) guestsNow() []*source.Supervised {
	all := slices.Clone(c.guests)
	for _, a := range c.added.now() {
		if a.guest != nil {
			all = append(all, a.guest)
		}
	}
	return all
}

func (c *controller) sourceFails(source string, err error) {
	c.operator.logger.Error(err, "source fails", "controller", c.name, "source", source)
}

func (c *controller) isGone(primary trc.Key, uid types.UID) bool {
	now := c.store.Get(primary)
	return (now == nil || now.GetUID() != uid) && !c.departures.Has(primary, uid)
}

// read is a store that a controller reads, until unread is closed; for as long as it runs if that is nil.
type read struct {
	*cache.Store
	unread <-chan struct{}
}

// readsNow are the stores that runs read at the moment.
func (c *controller) readsNow() []read {
	var all []read
	for _, s := range c.reads {
		all = append(all, read{Store: s})
	}
	for _, a := range c.added.now() {
		c.added.mu.Lock()
		if a.opened != nil {
			all = append(all, read{a.opened.Store, a.removed})
		}
		c.added.mu.Unlock()
	}
	return all
}

// cachesNow are the caches of these.
func (c *controller) cachesNow() []*cache.Store {
	var all []*cache.Store
	for _, s := range c.readsNow() {
		all = append(all, s.Store)
	}
	return all
}

func externalCause(source, what string) timeline.Cause {
	return timeline.External{Source: source, ID: what}
}
