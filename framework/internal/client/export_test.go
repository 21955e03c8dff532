package client

import (
	"fmt"
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/trc"
)

// Directly is the serializer for JSON of one typed kind.
func Directly(general runtime.NegotiatedSerializer, gvk schema.GroupVersionKind, newItem func() trc.Object, e *Echoes) runtime.NegotiatedSerializer {
	return newDirectly(general, gvk, newItem, &e.DecodeCache)
}

// Echoes is what is known of answers whose echo has not come.
type Echoes struct{ DecodeCache }

// Watch begins to expect echoes.
func (e *Echoes) Watch() { e.Watched.Store(true) }

// Expect takes in an answer.
func (e *Echoes) Expect(text string, o trc.Object) { e.expect([]byte(text), o) }

// Take takes in an event, and returns its object if that is known.
func (e *Echoes) Take(text string) trc.Object { return e.take([]byte(text)) }

// Passed takes in the version of an event.
func (e *Echoes) Passed(version string) { e.passed(version) }

// Begin notes that a write to an object is under way.
func (e *Echoes) Begin(key trc.Key) { e.begin(key) }

// End notes that it has been answered.
func (e *Echoes) End(key trc.Key) { e.end(key) }

// CameEarly takes in an event that is not the echo of an answer.
func (e *Echoes) CameEarly(text string, o trc.Object) { e.cameEarly([]byte(text), o) }

// TakeEarly takes in an answer, and returns its object if an event was it.
func (e *Echoes) TakeEarly(text string) trc.Object { return e.takeEarly([]byte(text)) }

// Audit returns how many bytes of answers and events are kept, and fails the invariant aloud.
func (e *Echoes) Audit() (bytes int, err error) {
	for at := e.inOrder.Front(); at != nil; at = at.Next() {
		kept := at.Value.(echo)
		bytes += len(kept.text)
		if e.byHash[maphash.Bytes(echoSeed, kept.text)] != at {
			return bytes, fmt.Errorf("%s is not to be found", kept.text)
		}
	}
	if len(e.byHash) != e.inOrder.Len() || bytes != e.size || bytes > maxEchoBytes {
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

// Addresses returns the address of a request as the framework sets it, and as client-go does.
func Addresses(ours, theirs *rest.Request, gv schema.GroupVersion, namespaced bool, namespace string, names ...string) (at, want *rest.Request) {
	r := &Client{Name: "webpages", Namespaced: namespaced, root: "/apis/" + gv.String(), Agent: "a"}
	return r.at(ours, namespace, names...), addressed(theirs.NamespaceIfScoped(namespace, namespaced).Resource(r.Name), names)
}
