package trc_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/trc"
)

// busyServer commits writes of many goroutines in one order.
type busyServer struct {
	mu  sync.Mutex
	log []commit
	now map[trc.Key]commit
}

// write creates, updates or deletes, and returns what it did.
func (b *busyServer) write(key trc.Key, remove bool) commit {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.now[key]
	if c.uid == "" || c.deleted {
		c = commit{key: key, uid: "u" + strconv.Itoa(len(b.log))}
	} else {
		c.deleted = remove
	}
	c.version = firstVersion + len(b.log)
	b.log = append(b.log, c)
	b.now[key] = c
	return c
}

// since returns the commits after the first n.
func (b *busyServer) since(n int) []commit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log[n:len(b.log):len(b.log)]
}

// before returns the earlier commits of the same object.
func (b *busyServer) before(c commit) commit {
	earlier := b.since(0)[:c.version-firstVersion]
	for i := len(earlier) - 1; ; i-- {
		if earlier[i].key == c.key {
			return earlier[i]
		}
	}
}

// ended reports whether the object has been deleted.
func (b *busyServer) ended(c commit) bool {
	for _, later := range b.since(c.version - firstVersion) {
		if later.key == c.key && later.uid == c.uid && later.deleted {
			return true
		}
	}
	return false
}

func TestG01_G02_ManyWritersReadersAndAWatchAtOnce(t *testing.T) {
	const writers, readers, writes = 4, 2, 400
	r := newRigWithoutWatch(t)
	w := r.AddWatch("")
	server := &busyServer{now: map[trc.Key]commit{}}
	var inside atomic.Int32
	r.Subscribe(func(trc.Transition) {
		if inside.Add(1) != 1 {
			t.Error("two transitions are delivered at once")
		}
		inside.Add(-1)
	})
	if err := w.Replace(nil, strconv.Itoa(firstVersion-1)); err != nil {
		t.Fatal(err)
	}

	var writing, others sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for range writes {
				key := key("name" + strconv.Itoa(random.IntN(5)))
				if err := writeAndRead(r.Store, server, server.write(key, random.IntN(4) == 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	others.Go(func() { feed(t, w, server, done) })
	for range readers {
		others.Go(func() { readOn(t, r.Store, done) })
	}
	writing.Wait()
	close(done)
	others.Wait()

	if err := agree(r.Store); err != nil {
		t.Error(err)
	}
	if r.Ahead() != 0 {
		t.Errorf("%d keys are ahead", r.Ahead())
	}
	for key, c := range server.now {
		want := "absent"
		if c.shown() {
			want = version(c.object())
		}
		r.sees(key.Name, want)
	}
}

// writeAndRead acknowledges a write and reads what it wrote.
func writeAndRead(s *trc.Store, server *busyServer, c commit) error {
	if c.deleted {
		// A client that deletes an object which the store does not show has seen a version elsewhere.
		// With only a UID that is neither visible nor acknowledged, nothing is hidden.
		var seen string
		if shown := s.Get(c.key); shown == nil || string(shown.GetUID()) != c.uid {
			seen = server.before(c).text()
		}
		s.AcknowledgeGone(c.key, c.object().GetUID(), seen)
		if o := s.Get(c.key); o != nil && string(o.GetUID()) == c.uid {
			return fmt.Errorf("G03: get %s: %s, which we deleted", c.key, version(o))
		}
		return nil
	}
	if err := s.Acknowledge(c.object(), trc.Proof{}); err != nil {
		return err
	}
	o := s.Get(c.key)
	if o == nil {
		if !server.ended(c) {
			return fmt.Errorf("G01: get %s: absent, but %s@%d was acknowledged", c.key, c.uid, c.version)
		}
		return nil
	}
	if v, _ := strconv.Atoi(o.GetResourceVersion()); v < c.version {
		return fmt.Errorf("G01: get %s: %s, but %s@%d was acknowledged", c.key, version(o), c.uid, c.version)
	}
	return nil
}

// feed is the watch: events in order, now and then a list instead of some.
func feed(t *testing.T, w *trc.Watch, server *busyServer, done <-chan struct{}) {
	fed := 0
	now := map[trc.Key]commit{}
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		news := server.since(fed)
		fed += len(news)
		for _, c := range news {
			now[c.key] = c
		}
		var err error
		if len(news)%7 == 6 {
			err = w.Replace(shownOf(now), strconv.Itoa(firstVersion-1+fed))
			news = nil
		}
		for _, c := range news {
			if c.deleted {
				err = w.Delete(c.object())
			} else {
				err = w.Update(c.object())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func shownOf(now map[trc.Key]commit) []any {
	var all []any
	for _, c := range now {
		if c.shown() {
			all = append(all, c.object())
		}
	}
	return all
}

// readOn reads until done, and checks that no object goes back in time.
func readOn(t *testing.T, s *trc.Store, done <-chan struct{}) {
	newest := map[string]int{}
	for {
		select {
		case <-done:
			return
		default:
		}
		named, err := s.ByIndex("name", "name0")
		if err != nil || len(named) > 1 {
			t.Errorf("index: %v, %v", named, err)
		}
		for _, o := range append(named, s.List("", nil)...) { // in the order in which they were read
			uid := string(o.GetUID())
			v, _ := strconv.Atoi(o.GetResourceVersion())
			if v < newest[uid] {
				t.Errorf("G02: read %s after @%d", version(o), newest[uid])
			}
			newest[uid] = v
		}
	}
}

func TestEverythingAtOnce(t *testing.T) {
	const writes, indexes = 300, 20
	s := trc.NewStore(trc.Options{Name: "configmaps", AheadLimit: 10})
	w, other := s.AddWatch("ns"), s.AddWatch("other")
	told := map[trc.Key]trc.Object{}
	s.Subscribe(func(transition trc.Transition) {
		if err := apply(told, transition); err != nil {
			t.Error(err)
		}
	})
	server := &busyServer{now: map[trc.Key]commit{}}
	var writing, others sync.WaitGroup
	done := make(chan struct{})
	for i := range 3 {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range writes {
				if err := s.Room(t.Context()); err != nil {
					t.Error(err)
				}
				c := server.write(key("name"+strconv.Itoa(random.IntN(20))), random.IntN(4) == 0)
				if err := writeAndRead(s, server, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	others.Go(func() { feed(t, w, server, done) })
	others.Go(func() {
		for i := range indexes {
			if err := s.AddIndex(strconv.Itoa(i), func(o trc.Object) []string { return []string{o.GetName(), "all"} }); err != nil {
				t.Error(err)
			}
		}
	})
	others.Go(func() { readAll(t, s, done) })
	others.Go(func() { // nothing of them is left, even if others file at the same time
		for i := range indexes {
			name := "passing" + strconv.Itoa(i)
			if err := s.AddIndex(name, func(trc.Object) []string { return []string{"all"} }); err != nil {
				t.Error(err)
			}
			s.RemoveIndex(name)
		}
	})
	others.Go(func() {
		for i := range writes {
			if err := other.Replace(items(objects(within("other", object("a", "u1@5")))), strconv.Itoa(10+i)); err != nil {
				t.Error(err)
			}
		}
	})
	writing.Wait()
	close(done)
	others.Wait()
	for i := range indexes {
		if found, err := s.ByIndex(strconv.Itoa(i), "all"); err != nil || len(found) != s.Len() {
			t.Errorf("index %d has %d objects, want %d, %v", i, len(found), s.Len(), err)
		}
	}
	if n := s.Stray(); n != 0 {
		t.Errorf("%d are filed under indexes that were removed", n)
	}
	if len(told) != s.Len() || s.Ahead() != 0 {
		t.Errorf("told of %d objects, %d are shown, %d ahead", len(told), s.Len(), s.Ahead())
	}
}

// readAll reads in all ways until done.
func readAll(t *testing.T, s *trc.Store, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		for _, o := range append(s.List("ns", labels.Everything()), s.List("", nil)...) {
			s.Get(trc.KeyOf(o))
			s.LastManager(trc.KeyOf(o))
			if named, err := s.ByIndex("0", o.GetName()); err == nil && len(named) > 2 {
				t.Errorf("%d objects named %s", len(named), o.GetName())
			}
		}
		if len(s.Keys("other")) > 1 || s.Len() < 0 || !s.Comparable() {
			t.Error("this cannot be")
		}
		_ = s.Err()
	}
}
