package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// registry is where the API server keeps its objects.
const registry = "/registry/"

// Event is one write as etcd carried it out.
type Event struct {
	// Key is like /registry/pods/<namespace>/<name> or
	// /registry/<group>/<resource>/<namespace>/<name>.
	Key string
	// Revision is the resource version that the write made, CreateRevision that of the object's
	// creation.
	Revision, CreateRevision int64
	// Deleted: the object is gone.
	Deleted bool
	// Stored is the object as stored; of a deletion, as stored before it.
	Stored []byte
}

// Object decodes what is stored, with the event's revision as resource version: into client-go's
// types, else, as custom resources are, as unstructured. CustomResourceDefinitions and other types
// that client-go lacks may not be decoded. The object is the caller's.
func (e Event) Object() (runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Stored, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		object, _, err = unstructured.UnstructuredJSONScheme.Decode(e.Stored, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("testenv: decode %s: %w", e.Key, err)
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("testenv: decode %s: %w", e.Key, err)
	}
	accessor.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
	return object, nil
}

// String returns the event in one line.
func (e Event) String() string {
	what := "put"
	if e.Deleted {
		what = "delete"
	}
	return fmt.Sprintf("%d %s %s (created at %d)", e.Revision, what, e.Key, e.CreateRevision)
}

// Truth is what really was written, in order, from a watch of etcd that passes no API server.
type Truth struct {
	etcd   *etcd
	cancel context.CancelFunc
	done   chan struct{} // closed when the watch has ended

	mu      sync.Mutex // guards below
	events  []Event
	passed  int64 // all up to this revision are in events
	failed  error
	changed chan struct{} // closed when one of these changes
}

// Truth watches what is written from now on. The context is for the start alone; Stop ends the
// watch.
func (e *Env) Truth(ctx context.Context) (*Truth, error) { return e.TruthFrom(ctx, 0) }

// TruthFrom watches what was and is written from a revision on, which must not be compacted (the
// API server compacts every five minutes); 1 is the first, 0 the next.
func (e *Env) TruthFrom(ctx context.Context, revision int64) (*Truth, error) {
	return truthOf(ctx, e.etcd, revision)
}

func truthOf(ctx context.Context, etcd *etcd, revision int64) (*Truth, error) {
	if revision == 0 {
		now, err := etcd.revision(ctx)
		if err != nil {
			return nil, err
		}
		revision = now + 1
	}
	watching, cancel := context.WithCancel(context.Background())
	t := &Truth{etcd: etcd, cancel: cancel, done: make(chan struct{}), passed: revision - 1, changed: make(chan struct{})}
	go t.follow(watching)
	return t, nil
}

// Stop ends the watch and returns the error by which it ended before, if it did. Events stays
// usable.
func (t *Truth) Stop() error {
	t.mu.Lock()
	failed := t.failed
	t.mu.Unlock()
	t.cancel()
	<-t.done
	return failed
}

// Events returns what was written, in order, as far as it is known. The slice is the caller's, what
// it refers to is not to be changed.
func (t *Truth) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}

// Wait waits until all that was written up to a revision is in Events.
func (t *Truth) Wait(ctx context.Context, revision int64) error {
	for {
		t.mu.Lock()
		passed, failed, changed := t.passed, t.failed, t.changed
		t.mu.Unlock()
		switch {
		case passed >= revision:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-changed:
		case <-t.done:
		case <-ctx.Done():
			return fmt.Errorf("testenv: wait for revision %d, at %d: %w", revision, passed, ctx.Err())
		}
	}
}

// WaitNow waits until all that was written before the call is in Events.
func (t *Truth) WaitNow(ctx context.Context) error {
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	return t.Wait(ctx, now)
}

// Now is the revision of the last write, at some time between the call and its return, as a quorum
// of etcd says.
func (t *Truth) Now(ctx context.Context) (int64, error) { return t.etcd.revision(ctx) }

// Replay calls a function after every write of a key with the prefix, with the last events of all
// such keys that exist then. The map is good until the function returns. What was last written
// before the watch began is not known.
func (t *Truth) Replay(prefix string, each func(revision int64, live map[string]Event)) {
	live := map[string]Event{}
	for _, e := range t.Events() {
		if !strings.HasPrefix(e.Key, prefix) {
			continue
		}
		if e.Deleted {
			delete(live, e.Key)
		} else {
			live[e.Key] = e
		}
		each(e.Revision, live)
	}
}

// errRefused: etcd does not serve the watch, for example because its history is compacted.
var errRefused = errors.New("etcd refuses the watch")

// follow records what etcd says until the context ends or etcd refuses. Etcd may be killed and come
// back: then it goes on where it was.
func (t *Truth) follow(ctx context.Context) {
	defer close(t.done)
	var err error
	for ctx.Err() == nil && !errors.Is(err, errRefused) {
		if err = t.watch(ctx); err != nil {
			select { // an etcd that is away does not announce that it is back
			case <-ctx.Done():
			case <-time.After(pollInterval):
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		err = errors.New("it was stopped")
	}
	t.failed = fmt.Errorf("testenv: the watch of etcd has ended: %w", err)
	close(t.changed)
	t.changed = make(chan struct{})
}

// watch records what one watch says until it ends.
func (t *Truth) watch(ctx context.Context) (err error) {
	t.mu.Lock()
	next := t.passed + 1
	t.mu.Unlock()
	stream, err := t.etcd.watch(ctx, next)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	for decoder := json.NewDecoder(stream); ; {
		var message watchMessage
		if err := decoder.Decode(&message); err != nil {
			return err
		}
		switch {
		case message.Result.CompactRevision != 0:
			return fmt.Errorf("%w: compacted before revision %d", errRefused, message.Result.CompactRevision)
		case message.Error != nil || message.Result.Canceled:
			return fmt.Errorf("%w: %s%s", errRefused, message.Error, message.Result.CancelReason)
		}
		t.take(message.Result.Events)
	}
}

// take records the events of a message, which ends with the last one of a revision. The watch is of
// all keys, so every revision has an event, and what has passed is known without asking.
func (t *Truth) take(events []watchEvent) {
	if len(events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		if event := eventOf(e); strings.HasPrefix(event.Key, registry) {
			t.events = append(t.events, event)
		}
		t.passed = e.KV.ModRevision
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func eventOf(e watchEvent) Event {
	event := Event{Key: string(e.KV.Key), Revision: e.KV.ModRevision, CreateRevision: e.KV.CreateRevision, Stored: e.KV.Value}
	if e.Type == "DELETE" {
		event.Deleted = true
		if e.Prev != nil {
			event.CreateRevision, event.Stored = e.Prev.CreateRevision, e.Prev.Value
		}
	}
	return event
}
