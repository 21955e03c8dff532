package dependent

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
)

// DependentKey is the label by which a [Kubernetes] that has a Secondary of its own recognises its objects when their
// names change. Its value follows from the controller's field manager and the name of the Secondary.
const DependentKey = "evenkeel.dev/dependent"

// Former is what happens to objects that a [Kubernetes] wrote when another name or namespace was desired.
type Former int

const (
	// DeleteFormer deletes them once the present object is written. The node is not ready until they are gone.
	DeleteFormer Former = iota
	// ReportFormer leaves them, and the node stalls until somebody has deleted them: see [ErrFormer].
	ReportFormer
)

// String returns the name of the constant.
func (f Former) String() string { return nameOf(int(f), "DeleteFormer", "ReportFormer") }

// ErrFormer is in the error that names an object of a former name, which [ReportFormer] leaves to somebody else.
var ErrFormer error = conditions.StallError("an object of a former name is left, and Former says to report it")

// formers tells objects of a former name from others. The zero value recognises none.
type formers struct {
	of    string // the name of the Secondary, unique in a controller; empty if it is shared
	cache atomic.Pointer[formersLabel]
}

// formersLabel is the value of the label for a field manager.
type formersLabel struct{ manager, value string }

// label returns the value of [DependentKey]. It is another one for each controller: several may own objects of one primary.
func (f *formers) label(manager string) string {
	if known := f.cache.Load(); known != nil && known.manager == manager {
		return known.value
	}
	const longest, suffix = 63, 10
	sum := sha256.Sum256([]byte(manager + "\x00" + f.of))
	fits := strings.TrimLeft(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, f.of), "-_.")
	value := fits[:min(len(fits), longest-suffix-1)] + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffix]
	if fits == "" {
		value = value[1:]
	}
	f.cache.Store(&formersLabel{manager, value})
	return value
}

// labelled returns a copy of what is desired that carries the label, or desired itself if names need not be recognised.
func (o *objects[P, S]) labelled(c *framework.Context[P], desired S) (S, error) {
	if o.formers.of == "" {
		return desired, nil
	}
	desired, err := copyOf(desired)
	if err == nil {
		setLabel(desired, DependentKey, o.formers.label(c.FieldManager()))
	}
	return desired, err
}

// isLabelled reports whether an object carries the label of the dependent.
func (o *objects[P, S]) isLabelled(c *framework.Context[P], object S) bool {
	return o.formers.of != "" && object.GetLabels()[DependentKey] == o.formers.label(c.FieldManager())
}

// isUnlabelled reports whether the label is missing. Where caches may drop labels, that says nothing.
func (o *objects[P, S]) isUnlabelled(shown, desired S) bool {
	whole := o.source.Transform == nil && o.source.KeepWhole == 0
	return o.formers.of != "" && whole && shown.GetLabels()[DependentKey] != desired.GetLabels()[DependentKey]
}

// setLabel sets a label of an object that is the caller's own, in a map of its own.
func setLabel(o framework.Object, key, value string) {
	labels := map[string]string{key: value}
	for other, value := range o.GetLabels() {
		if other != key {
			labels[other] = value
		}
	}
	o.SetLabels(labels)
}

// former returns the objects that the dependent wrote under other names than the present one, also those that are being
// deleted. What says that it is somebody else's by now is not among them.
func (o *objects[P, S]) former(c *framework.Context[P], present types.NamespacedName) ([]S, error) {
	if o.formers.of == "" {
		return nil, nil
	}
	label := o.formers.label(c.FieldManager())
	found, err := o.source.Select(c, func(shown metav1.Object) bool {
		return (shown.GetName() != present.Name || shown.GetNamespace() != present.Namespace) && shown.GetLabels()[DependentKey] == label
	})
	if err != nil {
		return nil, orInactive(err)
	}
	var all []S
	for _, shown := range found {
		if o.isTied(c, shown) && o.otherClaim(c, shown) == nil {
			all = append(all, shown)
		}
	}
	return all, nil
}

// removeFormer sees to what was written under other names than the present one. [ErrGoing] says that it is not gone yet.
func (o *objects[P, S]) removeFormer(ctx context.Context, c *framework.Context[P], present types.NamespacedName) error {
	left, err := o.former(c, present)
	if err != nil || len(left) == 0 {
		return err
	}
	if o.formerStay {
		return fmt.Errorf("dependent %s: %s: %w", o.node, kindName(left[0]), ErrFormer)
	}
	if err := o.removeAll(ctx, c, left); err != nil {
		return err
	}
	left, err = o.former(c, present)
	if err != nil || len(left) == 0 || o.isDry(c) {
		return err
	}
	return fmt.Errorf("dependent %s: %s, of a former name: %w", o.node, kindName(left[0]), ErrGoing)
}

// isWaiting reports whether an error says only that a later run goes on: that is no failure of a node.
func isWaiting(err error) bool { return errors.Is(err, ErrGoing) || errors.Is(err, ErrFormer) }
