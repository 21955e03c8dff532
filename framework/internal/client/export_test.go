package client

import (
	"fmt"
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/trc"
)

// FastSerializer returns the serializer for JSON of one typed kind.
func FastSerializer(general runtime.NegotiatedSerializer, gvk schema.GroupVersionKind, newItem func() trc.Object, e *Cache) runtime.NegotiatedSerializer {
	return newFastSerializer(general, gvk, newItem, &e.DecodeCache)
}

// Cache exposes a DecodeCache.
type Cache struct{ DecodeCache }

// Watch sets Watched.
func (e *Cache) Watch() { e.Watched.Store(true) }

// Add adds an answer.
func (e *Cache) Add(text string, o trc.Object) { e.add([]byte(text), o) }

// Take applies an event, and returns its object if that is cached.
func (e *Cache) Take(text string) trc.Object { return e.take([]byte(text)) }

// Advance applies the version of an event.
func (e *Cache) Advance(version string) { e.advance(version) }

// Begin records that a write to an object is under way.
func (e *Cache) Begin(key trc.Key) { e.begin(key) }

// End records that it has been answered.
func (e *Cache) End(key trc.Key) { e.end(key) }

// AddEarly adds an event that does not equal an answer.
func (e *Cache) AddEarly(text string, o trc.Object) { e.addEarly([]byte(text), o) }

// TakeEarly applies an answer, and returns its object if an event contained it.
func (e *Cache) TakeEarly(text string) trc.Object { return e.takeEarly([]byte(text)) }

// Audit returns how many bytes of answers and events are kept, and an error if the invariant is
// violated.
func (e *Cache) Audit() (bytes int, err error) {
	for at := e.inOrder.Front(); at != nil; at = at.Next() {
		kept := at.Value.(decoded)
		bytes += len(kept.text)
		if e.byHash[maphash.Bytes(hashSeed, kept.text)] != at {
			return bytes, fmt.Errorf("%s is not to be found", kept.text)
		}
	}
	if len(e.byHash) != e.inOrder.Len() || bytes != e.size || bytes > maxCacheBytes {
		return bytes, fmt.Errorf("%d to be found, %d in order, %d bytes of %d", len(e.byHash), e.inOrder.Len(), e.size, bytes)
	}
	kept := 0
	for _, u := range e.underWay {
		if early, ok := e.early[u.hash]; ok {
			bytes, kept = bytes+len(early.text), kept+1
		}
	}
	if kept != len(e.early) {
		return bytes, fmt.Errorf("%d events that came before their answer, %d of them of writes under way", len(e.early), kept)
	}
	return bytes, nil
}

// Addresses returns the URL of a request as the framework sets it, and as client-go does.
func Addresses(ours, theirs *rest.Request, gv schema.GroupVersion, namespaced bool, namespace string, names ...string) (at, want *rest.Request) {
	r := &Client{Name: "webpages", Namespaced: namespaced, root: "/apis/" + gv.String(), Agent: "a"}
	return r.at(ours, namespace, names...), addressed(theirs.NamespaceIfScoped(namespace, namespaced).Resource(r.Name), names)
}
