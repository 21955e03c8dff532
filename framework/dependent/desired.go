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

// naming is what a run knows of the name of an object.
type naming struct {
	mu    sync.Mutex // guards below; a leaf
	key   types.NamespacedName
	known bool
	depth int // how many compute it now
}

// maxDepth tells several nodes that ask at a time from one that asks for itself.
const maxDepth = 100

func (n *naming) enter() (key types.NamespacedName, known, tooDeep bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known {
		n.depth++
	}
	return n.key, n.known, n.depth > maxDepth
}

func (n *naming) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.depth--
}

func (n *naming) set(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key, n.known = key, true
}

func (k *Kubernetes[P, S]) naming(c *framework.Context[P]) *naming {
	return c.PerRun(k, func() any { return &naming{} }).(*naming)
}

// desired asks the author, and notes the name of what is desired for the rest of the run.
func (k *Kubernetes[P, S]) desired(ctx context.Context, c *framework.Context[P]) (S, error) {
	var none S
	desired, err := k.ask(ctx, c)
	switch {
	case err != nil:
		return none, fmt.Errorf("dependent %s: desired: %w", k.node, err)
	case isNil(desired):
		return none, fmt.Errorf("dependent %s: Desired returned nil; ReconcilePrecondition says whether it is wanted", k.node)
	}
	if k.Key != nil {
		if desired, err = named(desired, k.Key(c.Primary())); err != nil {
			return none, fmt.Errorf("dependent %s: %w", k.node, err)
		}
	}
	if desired.GetName() == "" {
		return none, fmt.Errorf("dependent %s: Desired returned an object without a name; framework.StableName makes one for those that have none of their own", k.node)
	}
	k.naming(c).set(keyOf(desired))
	return desired, nil
}

// ask calls Desired.
func (k *Kubernetes[P, S]) ask(ctx context.Context, c *framework.Context[P]) (S, error) {
	defer k.asks(c)()
	return k.Desired(ctx, c.Primary(), c)
}

// named returns an object with the name that Key says.
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

// key is the name of the object.
func (k *Kubernetes[P, S]) key(c *framework.Context[P]) (types.NamespacedName, error) {
	if k.Key != nil {
		return k.Key(c.Primary()), nil
	}
	n := k.naming(c)
	key, known, tooDeep := n.enter()
	if known {
		return key, nil
	}
	defer n.leave()
	if tooDeep {
		return key, fmt.Errorf("dependent %s: Desired reads an object whose name only Desired tells: set Key", k.node)
	}
	desired, err := k.desired(c.Ctx(), c)
	if err != nil {
		return key, err
	}
	return keyOf(desired), nil
}

// keyInCleanup is key where things that Desired reads may be missing, so that it may even panic.
func (k *Kubernetes[P, S]) keyInCleanup(c *framework.Context[P]) (key types.NamespacedName, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("dependent %s: Desired panicked: %v", k.node, value)
		}
	}()
	return k.key(c)
}

// ContentName returns base with a suffix of ten characters that follows from the content, for objects that are not changed, but exist
// in several versions side by side, as a ConfigMap that running Pods still use: the same name for the same content, and another one for other. A base
// that is too long for 63 characters is cut. content is anything that JSON can tell, but should hold no times and no random order of lists.
//
// A [Bulk] that desires the newest version and those still in use removes the rest.
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
