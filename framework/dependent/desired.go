package dependent

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// nameCache is the name of an object, once a run has computed it.
type nameCache struct {
	mu    sync.Mutex // guards the fields below; a leaf
	key   types.NamespacedName
	known bool
	depth int // how many goroutines compute it now
}

// maxDepth separates several nodes that compute the name at the same time from a Desired that needs
// its own name.
const maxDepth = 100

func (n *nameCache) enter() (key types.NamespacedName, known, tooDeep bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known {
		n.depth++
	}
	return n.key, n.known, n.depth > maxDepth
}

func (n *nameCache) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.depth--
}

func (n *nameCache) set(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key, n.known = key, true
}

func (k *Kubernetes[P, S]) nameCache(c *framework.Context[P]) *nameCache {
	return c.RunValue(k, func() any { return &nameCache{} }).(*nameCache)
}

// desired calls Desired, and keeps the name of the result for the rest of the run.
func (k *Kubernetes[P, S]) desired(ctx context.Context, c *framework.Context[P]) (S, error) {
	var none S
	desired, err := k.callDesired(ctx, c)
	switch {
	case err != nil:
		return none, fmt.Errorf("dependent %s: desired: %w", k.node, err)
	case isNil(desired):
		return none, fmt.Errorf("dependent %s: Desired returned nil; use ReconcilePrecondition for objects that are not always wanted", k.node)
	}
	if k.Key != nil {
		if desired, err = named(desired, k.Key(c.Primary())); err != nil {
			return none, fmt.Errorf("dependent %s: %w", k.node, err)
		}
	}
	if desired.GetName() == "" {
		return none, fmt.Errorf("dependent %s: Desired returned an object without a name; framework.StableName computes one", k.node)
	}
	k.nameCache(c).set(keyOf(desired))
	return desired, nil
}

// callDesired calls Desired.
func (k *Kubernetes[P, S]) callDesired(ctx context.Context, c *framework.Context[P]) (S, error) {
	defer k.order.enterDesired(c)()
	return k.Desired(ctx, c.Primary(), c)
}

// named returns an object with the name that Key has returned.
func named[S framework.Object](o S, key types.NamespacedName) (S, error) {
	if keyOf(o) == key {
		return o, nil
	}
	if o.GetName() != "" && o.GetName() != key.Name || o.GetNamespace() != "" && o.GetNamespace() != key.Namespace {
		return o, fmt.Errorf("%s is desired, and Key says %s", keyOf(o), key)
	}
	o, err := copyOf(o)
	if err == nil {
		o.SetName(key.Name)
		o.SetNamespace(key.Namespace)
	}
	return o, err
}

// key returns the name of the object.
func (k *Kubernetes[P, S]) key(c *framework.Context[P]) (types.NamespacedName, error) {
	if k.Key != nil {
		return k.Key(c.Primary()), nil
	}
	n := k.nameCache(c)
	key, known, tooDeep := n.enter()
	if known {
		return key, nil
	}
	defer n.leave()
	if tooDeep {
		return key, fmt.Errorf("dependent %s: Desired reads its own object, whose name only Desired returns: set Key", k.node)
	}
	desired, err := k.desired(c.Ctx(), c)
	if err != nil {
		return key, err
	}
	return keyOf(desired), nil
}

// keyInCleanup is key for cleanups: things that Desired reads may be missing then, so it may even
// panic.
func (k *Kubernetes[P, S]) keyInCleanup(c *framework.Context[P]) (key types.NamespacedName, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("dependent %s: Desired panicked: %v", k.node, value)
		}
	}()
	return k.key(c)
}

// ContentName returns base with a suffix of ten characters that is computed from the content: the
// same name for the same content, and another name for other content. It is for objects that are
// never changed but exist in several versions side by side, such as a ConfigMap that running Pods
// still use. A base that is too long for 63 characters is cut. content may be any value that JSON
// can encode, but should contain no times and no lists in random order.
//
// A [Bulk] that desires the newest version and the versions still in use deletes the rest.
func ContentName(base string, content any) (string, error) {
	const suffix, longest = 10, 63
	encoded, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("dependent: content name %q: %w", base, err)
	}
	sum := sha256.Sum256(encoded)
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	return base[:min(len(base), longest-suffix-1)] + "-" + hash[:suffix], nil
}
