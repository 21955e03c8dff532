package apimodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// world is one of the two API servers that are compared, as plain HTTP.
type world struct {
	client *http.Client
	host   string
	// before is what the objects were before the last request, by path; past is what they once were.
	before, past map[string]*unstructured.Unstructured
}

func newWorld(t *testing.T, config *rest.Config) *world {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = "checker/1"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return (&world{client: client, host: strings.TrimSuffix(config.Host, "/")}).anew()
}

// anew is the world without memory.
func (w *world) anew() *world {
	return &world{
		client: w.client, host: w.host,
		before: map[string]*unstructured.Unstructured{}, past: map[string]*unstructured.Unstructured{},
	}
}

// newRealWorld starts a real API server for the test.
func newRealWorld(t *testing.T) *world {
	t.Helper()
	env, err := testenv.Start(customResources()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return newWorld(t, env.Config)
}

func (w *world) send(method, path, contentType string, body []byte) (int, map[string]any, error) {
	return w.sendFor("application/json", method, path, contentType, body)
}

// sendFor sends a request that accepts something.
func (w *world) sendFor(accept, method, path, contentType string, body []byte) (int, map[string]any, error) {
	request, err := http.NewRequest(method, w.host+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", accept)
	response, err := w.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{}
	if err := utiljson.Unmarshal(content, &answer); err != nil {
		return response.StatusCode, map[string]any{"text": string(content)}, response.Body.Close()
	}
	return response.StatusCode, answer, response.Body.Close()
}

// await polls until the collection is served: nothing announces that a new kind is.
func (w *world) await(t *testing.T, path string) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		code, _, err := w.send(http.MethodGet, path, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if code == http.StatusOK {
			return
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// look reads the object at the path, so that the next operation can be about what is there.
func (w *world) look(path string) error {
	code, answer, err := w.send(http.MethodGet, path, "application/json", nil)
	if err != nil {
		return err
	}
	was := w.before[path]
	delete(w.before, path)
	if code == http.StatusOK {
		w.before[path] = &unstructured.Unstructured{Object: answer}
	}
	if was != nil && (w.before[path] == nil || w.before[path].GetResourceVersion() != was.GetResourceVersion()) {
		w.past[path] = was
	}
	return nil
}

// choice is a version or UID as an operation gives it, relative to what is there.
type choice int

const (
	none choice = iota
	current
	wrong
)

func (c choice) String() string { return [...]string{"none", "current", "wrong"}[c] }

func (w *world) version(path string, c choice) string {
	switch o := w.before[path]; {
	case c == none:
		return ""
	case c == current && o != nil:
		return o.GetResourceVersion()
	case w.past[path] != nil:
		return w.past[path].GetResourceVersion()
	}
	return "1"
}

func (w *world) uid(path string, c choice) string {
	switch o := w.before[path]; {
	case c == none:
		return ""
	case c == current && o != nil:
		return string(o.GetUID())
	}
	return "00000000-0000-0000-0000-000000000000"
}

// answer is what must be the same in both worlds.
type answer struct {
	Code    int
	Reason  string
	Causes  []string
	Details string
	Object  string
	Version string
	UID     string
}

// do sends a request and reduces the answer to what does not depend on the world.
func (w *world) do(method, path, objectPath, contentType string, body []byte) (answer, error) {
	code, content, err := w.send(method, path, contentType, body)
	if err != nil {
		return answer{}, err
	}
	return w.answer(code, objectPath, content)
}

func (w *world) answer(code int, objectPath string, content map[string]any) (answer, error) {
	a := answer{Code: code}
	if content["kind"] == "Status" {
		return w.status(a, objectPath, content)
	}
	o := &unstructured.Unstructured{Object: content}
	before := w.before[objectPath]
	switch {
	case before == nil:
		a.Version, a.UID = "first", "first"
	default:
		a.Version = fmt.Sprint("step ", compareVersions(o, before))
		a.UID = fmt.Sprint("same ", o.GetUID() == before.GetUID())
	}
	a.Object = reduced(o)
	return a, nil
}

func (w *world) status(a answer, objectPath string, content map[string]any) (answer, error) {
	status := metav1.Status{}
	encoded, err := json.Marshal(content)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(encoded, &status); err != nil {
		return a, err
	}
	a.Reason = string(status.Reason)
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			a.Causes = append(a.Causes, fmt.Sprint(cause.Type, " ", cause.Field))
		}
		slices.Sort(a.Causes)
		a.Causes = slices.Compact(a.Causes) // the server checks metadata of custom resources twice
		before := w.before[objectPath]
		sameUID := before != nil && status.Details.UID == before.GetUID()
		a.Details = fmt.Sprint(status.Details.Group, " ", status.Details.Name, " same UID ", sameUID)
	}
	return a, nil
}

func compareVersions(a, b *unstructured.Unstructured) int {
	x, _ := strconv.Atoi(a.GetResourceVersion())
	y, _ := strconv.Atoi(b.GetResourceVersion())
	switch {
	case x > y:
		return 1
	case x < y:
		return -1
	}
	return 0
}

// reduced is the object without versions, UIDs and times, and with its managers in an order of
// their own.
func reduced(o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	metadata, _ := o.Object["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "uid", "creationTimestamp", "deletionTimestamp"} {
		if _, found := metadata[name]; found {
			metadata[name] = "there"
		}
	}
	if items, isList := o.Object["items"].([]any); isList { // of built-in kinds, the server leaves out the types
		for i, item := range items {
			content, isObject := item.(map[string]any)
			if !isObject {
				continue // reduced before
			}
			of := (&unstructured.Unstructured{Object: content}).DeepCopy()
			delete(of.Object, "apiVersion")
			delete(of.Object, "kind")
			items[i] = reduced(of)
		}
	}
	if conditions, found, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); found && o.GetKind() == "Pod" {
		for _, c := range conditions {
			c.(map[string]any)["lastTransitionTime"] = "there"
		}
		_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
	}
	if managed, found := metadata["managedFields"].([]any); found {
		var all []string
		for _, entry := range managed {
			delete(entry.(map[string]any), "time")
			encoded, _ := json.Marshal(entry)
			all = append(all, string(encoded))
		}
		slices.Sort(all)
		metadata["managedFields"] = all
	}
	encoded, _ := json.MarshalIndent(o.Object, "", " ")
	return string(encoded)
}

// event is one event of a watch.
type event struct {
	Type   string
	Object *unstructured.Unstructured
}

// watching collects the events of a watch until an object with the given name was added. Like any
// client it resumes a watch that the server ended, which a server does that has just taken in a
// kind.
func (w *world) watching(ctx context.Context, path, last string) (<-chan []event, error) {
	code, list, err := w.send(http.MethodGet, path, "application/json", nil)
	if err != nil || code != http.StatusOK {
		return nil, fmt.Errorf("list %s: %d %v", path, code, err)
	}
	version := (&unstructured.Unstructured{Object: list}).GetResourceVersion()
	found := make(chan []event, 1)
	go func() {
		defer close(found)
		var events []event
		for ctx.Err() == nil {
			more := w.watchOnce(ctx, path+"&watch=true&resourceVersion="+version, last)
			if events = append(events, more...); len(events) == 0 {
				continue
			}
			newest := events[len(events)-1].Object
			if newest.GetName() == last {
				found <- events
				return
			}
			version = newest.GetResourceVersion()
		}
	}()
	return found, nil
}

// watchOnce returns the events up to the end of one watch.
func (w *world) watchOnce(ctx context.Context, path, last string) (events []event) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.host+path, nil)
	if err != nil {
		return nil
	}
	request.Header.Set("Accept", "application/json")
	response, err := w.client.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	for decoder := json.NewDecoder(response.Body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if decoder.Decode(&e) != nil || utiljson.Unmarshal(e.Object, &o.Object) != nil {
			return events
		}
		if e.Type == string(watch.Error) {
			return append(events, event{Type: e.Type, Object: o}) // a version of "", which starts anew: it will differ
		}
		events = append(events, event{e.Type, o})
		if o.GetName() == last {
			return events
		}
	}
}

var patchTypes = map[string]string{
	"merge": string(types.MergePatchType), "json": string(types.JSONPatchType), "apply": string(types.ApplyPatchType),
	"strategic": string(types.StrategicMergePatchType),
}
