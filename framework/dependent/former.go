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

// DependentKey is the label by which a [Kubernetes] with a Secondary of its own finds its objects
// after their names have changed. Its value is computed from the controller's field manager and the
// name of the Secondary.
const DependentKey = "evenkeel.dev/dependent"

// Former is the treatment of objects that a [Kubernetes] wrote when another name or namespace was
// desired.
type Former int

const (
	// DeleteFormer deletes them once the present object is written. The node is not ready until they
	// are gone. This is the default.
	DeleteFormer Former = iota
	// ReportFormer keeps them, and the node stalls until somebody has deleted them: see [ErrFormer].
	ReportFormer
)

// String returns the name of the constant.
func (f Former) String() string { return nameOf(int(f), "DeleteFormer", "ReportFormer") }

// ErrFormer is wrapped by the error that names an object of a former name, which [ReportFormer]
// leaves to somebody else.
var ErrFormer error = conditions.StallError("an object of a former name is left, and Former is ReportFormer: delete it")

// formerLabel finds objects of a former name. The zero value finds none.
type formerLabel struct {
	of    string // the name of the Secondary, unique in a controller; empty if it is shared
	cache atomic.Pointer[formerLabelValue]
}

// formerLabelValue is the label's value for a field manager.
type formerLabelValue struct{ manager, value string }

// label returns the value of [DependentKey]. It differs between controllers, because several may
// own objects of one primary.
func (f *formerLabel) label(manager string) string {
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
	f.cache.Store(&formerLabelValue{manager, value})
	return value
}

// isOn reports whether an object has the label.
func (f *formerLabel) isOn(object framework.Object, manager string) bool {
	return f.of != "" && object.GetLabels()[DependentKey] == f.label(manager)
}

// labelled returns a copy of the desired object with the label, or the object itself if it needs no
// label.
func (k *Kubernetes[P, S]) labelled(c *framework.Context[P], desired S) (S, error) {
	if k.formerLabel.of == "" {
		return desired, nil
	}
	desired, err := copyOf(desired)
	if err == nil {
		setLabel(desired, DependentKey, k.formerLabel.label(c.FieldManager()))
	}
	return desired, err
}

// setLabel sets a label in a new map. The object must be the caller's own.
func setLabel(o framework.Object, key, value string) {
	labels := map[string]string{key: value}
	for other, value := range o.GetLabels() {
		if other != key {
			labels[other] = value
		}
	}
	o.SetLabels(labels)
}

// former returns the objects that the dependent wrote under other names than the present one,
// including those that are being deleted. Objects that say that they belong to somebody else are
// not among them.
func (k *Kubernetes[P, S]) former(c *framework.Context[P], present types.NamespacedName) ([]S, error) {
	if k.formerLabel.of == "" {
		return nil, nil
	}
	label := k.formerLabel.label(c.FieldManager())
	found, err := k.source.Select(c, func(shown metav1.Object) bool {
		return (shown.GetName() != present.Name || shown.GetNamespace() != present.Namespace) && shown.GetLabels()[DependentKey] == label
	})
	if err != nil {
		return nil, ignoreInactive(err)
	}
	var all []S
	for _, shown := range found {
		if k.isTied(c, shown) && k.otherClaim(c, shown) == nil {
			all = append(all, shown)
		}
	}
	return all, nil
}

// removeFormer deletes or reports what was written under other names than the present one. It
// returns [ErrGoing] if something is not gone yet.
func (k *Kubernetes[P, S]) removeFormer(ctx context.Context, c *framework.Context[P], present types.NamespacedName) error {
	left, err := k.former(c, present)
	if err != nil || len(left) == 0 {
		return err
	}
	if k.reportFormer {
		return fmt.Errorf("dependent %s: %s: %w", k.node, kindName(left[0]), ErrFormer)
	}
	if err := k.removeAll(ctx, c, left); err != nil {
		return err
	}
	left, err = k.former(c, present)
	if err != nil || len(left) == 0 || k.isDry(c) {
		return err
	}
	return fmt.Errorf("dependent %s: %s, of a former name: %w", k.node, kindName(left[0]), ErrGoing)
}

// isWaiting reports whether an error only means that a later run continues, which is no failure of
// a node.
func isWaiting(err error) bool { return errors.Is(err, ErrGoing) || errors.Is(err, ErrFormer) }
