package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// server opens and closes one dynamic source. Its methods are called by the goroutine of the
// source.
type server struct {
	*Registry
	life *host.Life // the running operator
	a    *Entry
}

// serve opens a source, and closes it when it is removed. It returns when nothing is left of it.
// ctx ends when it is removed.
func (s *server) serve(ctx context.Context) {
	a := s.a
	if a.Supervised != nil {
		s.serveSource(ctx)
	} else {
		s.serveSecondary(ctx)
	}
	<-a.removed // also after an error that no retry helps
	s.leave(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, a)
	close(a.gone)
}

// serveSecondary opens a secondary when its kind is served. It closes it when it is removed and no
// run reads it.
func (s *server) serveSecondary(ctx context.Context) {
	a := s.a
	d := a.Secondary
	found := s.retry(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := client.WithRequestTimeout(ctx)
		defer cancel()
		d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK)
		return err
	})
	if !found {
		return
	}
	o, err := s.open(d)
	if err != nil {
		s.note(nil, err)
		return
	}
	defer s.close(o)
	if !isFilled(ctx, o.Store) {
		return
	}
	// Start before runs may read it, so that no change after a read is missed.
	stop, err := o.Informer.Start(held{s})
	if err != nil {
		s.note(nil, err)
		return
	}
	defer stop()
	// A change that is delivered later would cause a second run of a primary that waited.
	o.Store.AwaitDelivery(ctx, s.Controller)
	for !s.admit(o) {
		if !isFilled(ctx, o.Store) {
			return
		}
		o.Store.AwaitDelivery(ctx, s.Controller)
	}
	<-ctx.Done()
	select {
	case <-a.unread:
	case <-s.over: // runs that read on ignore that their time has passed
	}
}

// open opens the stores of a secondary, in the namespaces of this moment.
func (s *server) open(d source.Description) (*source.Opened, error) {
	a := s.a
	s.Host.Changing.Lock()
	defer s.Host.Changing.Unlock()
	o, err := s.Opener.open(d, fmt.Sprintf("%s/%s#%d", s.Controller, a.Name, a.serial))
	if err != nil {
		return nil, err
	}
	s.note(o.Store, nil)
	s.life.Feed([]*cache.Store{o.Store})
	return o, nil
}

// close closes what open has opened.
func (s *server) close(o *source.Opened) {
	s.Host.Changing.Lock()
	defer s.Host.Changing.Unlock()
	s.Opener.close(o)
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
// later until it is synced.
func (s *server) admit(o *source.Opened) bool {
	waiting, ok := s.admitted(o)
	s.trigger(s.a.Name, waiting, "it is synced")
	return ok
}

func (s *server) admitted(o *source.Opened) (waiting map[trc.Key]bool, ok bool) {
	a := s.a
	s.Host.Changing.Lock()
	defer s.Host.Changing.Unlock()
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
type held struct{ *server }

// Offer passes an offer on. Before runs may read the source it records that the primary waits.
// After the source is removed it drops the offer.
func (h held) Offer(primary trc.Key, offer eventsource.Offer) {
	s, a := h.Registry, h.a
	s.mu.Lock()
	waits := a.Supervised == nil && a.opened == nil && !a.isRemoved()
	if waits {
		a.waiting[primary] = true
	}
	s.mu.Unlock()
	if !waits && !a.isRemoved() {
		s.Sink.Offer(primary, offer)
	}
}

// serveSource runs a source of the author's until it is removed.
func (s *server) serveSource(ctx context.Context) {
	a := s.a
	for _, before := range a.after { // a source may be started again, but not twice at a time
		cache.Await(ctx, before.gone)
		if ctx.Err() == nil && before.starts && !cache.IsClosed(before.Supervised.Ended) {
			s.note(nil, errLingers)
			cache.Await(ctx, before.Supervised.Ended)
			s.note(nil, nil)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if a.Supervised.Watcher != nil {
		defer s.watchPrimaries(ctx, a.Supervised)()
	}
	a.starts = true
	stop := a.Supervised.Start(ctx, held{s})
	select {
	case <-a.Supervised.Synced:
		s.synced()
		<-ctx.Done()
	case <-ctx.Done():
	}
	stop()
	if !cache.IsClosed(a.Supervised.Ended) {
		s.mu.Lock()
		s.lingering = append(s.lingering, a)
		s.mu.Unlock()
	}
}

var errLingers = errors.New("it was added and removed before, and has not ended yet")

// retry calls do until it succeeds, with the pauses of discovery. It returns false if ctx ends
// before, or if a retry is of no use.
func (s *server) retry(ctx context.Context, do func(context.Context) error) bool {
	a := s.a
	poll := host.KindPoll
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && s.note(nil, err) {
			s.Host.Logger.Error(err, "source fails", "controller", s.Controller, "source", a.Name)
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
func (s *server) note(filling *cache.Store, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.a
	before := a.err
	a.filling, a.err = filling, err
	return err != nil && (before == nil || before.Error() != err.Error())
}

// watchPrimaries delivers all existing primaries to a source, and their changes from then on. It
// returns after the existing ones are delivered.
func (s *server) watchPrimaries(ctx context.Context, g *source.Supervised) (unsubscribe func()) {
	cache.Await(ctx, s.primaries.Synced())
	subscription := s.primaries.SubscribeAs(trc.Subscriber{
		Handle: func(t trc.Transition) {
			if !IsRepeated(t) {
				g.PrimaryChanged(t.Old, t.New)
			}
		},
		Of: s.Controller, Apart: true,
	})
	g.Primaries.Store(subscription)
	s.primaries.AwaitDelivery(ctx, s.Controller)
	return subscription.End
}

// IsRepeated reports whether a transition repeats a creation or deletion that was delivered before.
// Such a transition follows from an answer that came late.
func IsRepeated(t trc.Transition) bool { return t.Late && (t.Old == nil || t.New == nil) }

// synced enqueues the primaries that waited for a source of the author's.
func (s *server) synced() {
	a := s.a
	s.mu.Lock()
	waiting := a.waiting
	if !a.isRemoved() {
		a.waiting = map[trc.Key]bool{}
	}
	s.mu.Unlock()
	s.trigger(a.Name, waiting, "it is synced")
}
