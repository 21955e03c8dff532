package apimodel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	bookmarkEvery  = time.Minute
	defaultTimeout = 30 * time.Minute
)

// watcher is one watch. Its goroutine alone uses it.
type watcher struct {
	model     *Model
	call      *call
	selects   func(*unstructured.Unstructured) bool
	bookmarks bool
	out       *json.Encoder

	next int // the first commit in the history that is not delivered yet
	cuts int // of the resource, when it began
}

// frame is one event on the wire.
type frame struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// body is the client's end of a watch: closing it ends the watch.
type body struct {
	*io.PipeReader
	end context.CancelFunc
}

func (b body) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// watch begins a watch, which ends with the request's context, its timeout or the body's Close.
func (m *Model) watch(request *http.Request, c *call) *http.Response {
	w, initial, err := m.newWatcher(c)
	if err != nil {
		return refuse(request, err)
	}
	timeout := defaultTimeout
	if seconds, err := strconv.Atoi(c.query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	ctx, end := context.WithTimeout(request.Context(), timeout)
	reader, writer := io.Pipe()
	w.out = json.NewEncoder(writer)
	// A client that does not read must not keep the watch from ending.
	unblock := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(reasonOf(request.Context())) })
	go func() {
		defer end()
		defer unblock()
		err := w.run(ctx, initial)
		if err == nil {
			err = reasonOf(request.Context())
		}
		_ = writer.CloseWithError(err)
	}()
	return stream(request, body{reader, end})
}

// reasonOf is why a stream ended: the client's wish, or a regular end.
func reasonOf(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return io.EOF
}

// newWatcher returns the watch and the events it starts with.
func (m *Model) newWatcher(c *call) (*watcher, []frame, error) {
	selects, err := c.selection()
	if err != nil {
		return nil, nil, err
	}
	from, err := c.version()
	if err != nil {
		return nil, nil, err
	}
	w := &watcher{model: m, call: c, selects: selects, bookmarks: c.query.Get("allowWatchBookmarks") == "true"}
	streamed := c.query.Get("sendInitialEvents") == "true"
	if streamed && c.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) {
		return nil, nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("resourceVersionMatch"), "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.cuts = c.resource.cuts
	if !streamed && from != 0 {
		w.next = m.history.after(from)
		if oldest := max(c.resource.oldest, m.history.first()); from < oldest {
			gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, oldest))
			return w, []frame{{watch.Error, statusOf(gone)}}, nil
		}
		return w, nil, nil
	}
	objects, version := m.stateLocked(c)
	w.next = m.history.after(version)
	var initial []frame
	for _, o := range sorted(objects, c.Namespace) {
		if selects(o) {
			initial = append(initial, frame{watch.Added, c.shown(o)})
		}
	}
	if streamed && w.bookmarks {
		initial = append(initial, w.bookmark(version, map[string]any{metav1.InitialEventsAnnotationKey: "true"}))
	}
	return w, initial, nil
}

func (w *watcher) bookmark(version int64, annotations map[string]any) frame {
	metadata := map[string]any{"resourceVersion": formatVersion(version)}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	o := untyped(w.call.resource.GroupVersionKind)
	o.Object["metadata"] = metadata
	return frame{watch.Bookmark, w.call.shown(o)}
}

// run delivers events until the watch ends: with nil, or because nobody reads any more.
func (w *watcher) run(ctx context.Context, pending []frame) error {
	bookmark := time.NewTicker(bookmarkEvery)
	defer bookmark.Stop()
	due := time.NewTimer(bookmarkEvery) // its first tick is as good as none
	defer due.Stop()
	isDue := false // a bookmark
	for {
		next := w.look(isDue)
		switch {
		case next.ended:
			return nil
		case !next.silent:
			isDue = false
			for _, f := range append(pending, next.frames...) {
				if err := w.out.Encode(f); err != nil || f.Type == watch.Error {
					return err
				}
			}
			pending = nil
		}
		if next.wait > 0 {
			due.Reset(next.wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.changed:
		case <-due.C:
		case <-bookmark.C:
			isDue = w.bookmarks
		}
	}
}

// outlook is what a watch does next.
type outlook struct {
	ended, silent bool
	frames        []frame
	wait          time.Duration   // until the next event is due, 0 if none is under way
	changed       <-chan struct{} // closed when it should look again
}

// look takes the events that are due.
func (w *watcher) look(bookmark bool) outlook {
	m, r := w.model, w.call.resource
	m.mu.Lock()
	defer m.mu.Unlock()
	next := outlook{changed: m.changed, ended: w.cuts != r.cuts, silent: r.stalled}
	if next.ended || next.silent {
		return next
	}
	now := time.Now()
	for ; w.next < len(m.history); w.next++ {
		c := m.history[w.next]
		if next.wait = c.At.Add(r.lag).Sub(now); next.wait > 0 {
			break
		}
		next.wait = 0
		if f, seen := w.event(c); seen {
			next.frames = append(next.frames, f)
		}
	}
	if bookmark {
		next.frames = append(next.frames, w.bookmark(m.history.versionAt(w.next), nil))
	}
	return next
}

// event is how the watch sees a commit: what enters its selection is added, what leaves it deleted.
func (w *watcher) event(c commit) (frame, bool) {
	if c.resource != w.call.resource || w.call.Namespace != "" && c.Object.GetNamespace() != w.call.Namespace {
		return frame{}, false
	}
	was := c.Previous != nil && w.selects(c.Previous)
	is := c.Event != watch.Deleted && w.selects(c.Object)
	switch {
	case is && was:
		return frame{watch.Modified, w.call.shown(c.Object)}, true
	case is:
		return frame{watch.Added, w.call.shown(c.Object)}, true
	case was: // as it last was in the selection, with the version of its leaving
		left := c.Previous.DeepCopy()
		left.SetResourceVersion(c.Object.GetResourceVersion())
		return frame{watch.Deleted, w.call.shown(left)}, true
	}
	return frame{}, false
}
