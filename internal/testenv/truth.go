package testenv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
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
	client *clientv3.Client
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
	return truthOf(ctx, e.environment.ControlPlane.Etcd, revision)
}

func truthOf(ctx context.Context, etcd *envtest.Etcd, revision int64) (*Truth, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL.String()}})
	if err != nil {
		return nil, fmt.Errorf("testenv: connect to etcd: %w", err)
	}
	if revision == 0 {
		now, err := revisionOf(ctx, client)
		if err != nil {
			_ = client.Close() // the error above says more
			return nil, err
		}
		revision = now + 1
	}
	watching, cancel := context.WithCancel(context.Background())
	t := &Truth{client: client, cancel: cancel, done: make(chan struct{}), passed: revision - 1, changed: make(chan struct{})}
	responses := client.Watch(watching, registry, clientv3.WithPrefix(), clientv3.WithRev(revision), clientv3.WithPrevKV())
	go t.follow(responses)
	return t, nil
}

// Stop ends the watch and returns the error by which it ended before, if it did. Events stays
// usable.
func (t *Truth) Stop() error {
	t.mu.Lock()
	failed := t.failed
	t.mu.Unlock()
	t.cancel()
	_ = t.client.Close() // says only that its context has ended
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
		// Etcd does not answer while it is behind with the watch, so we ask again.
		if err := t.client.RequestProgress(ctx); err != nil {
			return fmt.Errorf("testenv: wait for revision %d: %w", revision, err)
		}
		again := time.NewTimer(50 * time.Millisecond)
		select {
		case <-changed:
		case <-again.C:
		case <-t.done:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("testenv: wait for revision %d, at %d: %w", revision, passed, ctx.Err())
		}
		again.Stop()
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
func (t *Truth) Now(ctx context.Context) (int64, error) { return revisionOf(ctx, t.client) }

func revisionOf(ctx context.Context, client *clientv3.Client) (int64, error) {
	now, err := client.Get(ctx, registry, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("testenv: read etcd's revision: %w", err)
	}
	return now.Header.Revision, nil
}

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

// follow takes down what etcd says until the watch ends.
func (t *Truth) follow(responses clientv3.WatchChan) {
	defer close(t.done)
	for response := range responses {
		t.take(response)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = fmt.Errorf("testenv: the watch of etcd has ended")
	}
}

func (t *Truth) take(response clientv3.WatchResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := response.Err(); err != nil {
		t.failed = fmt.Errorf("testenv: watch etcd: %w", err)
	}
	for _, e := range response.Events {
		t.events = append(t.events, eventOf(e))
		t.passed = e.Kv.ModRevision
	}
	// A response without events says that there are none up to its revision; one with events may be
	// followed by more, but not of a revision that it contains.
	if response.IsProgressNotify() {
		t.passed = max(t.passed, response.Header.Revision)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func eventOf(e *clientv3.Event) Event {
	event := Event{Key: string(e.Kv.Key), Revision: e.Kv.ModRevision, CreateRevision: e.Kv.CreateRevision, Stored: e.Kv.Value}
	if e.Type == clientv3.EventTypeDelete {
		event.Deleted = true
		if e.PrevKv != nil {
			event.CreateRevision, event.Stored = e.PrevKv.CreateRevision, e.PrevKv.Value
		}
	}
	return event
}
