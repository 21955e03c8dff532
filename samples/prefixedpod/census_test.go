package prefixedpod_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// census receives every write of every Pod, in order, and counts the Pods of each owner at every
// version: G11 is that no owner ever has two.
type census struct {
	// live are the names of the Pods that there are, by owner and UID; made all that there ever were.
	live, made map[types.UID]map[types.UID]string
	violations []string
}

func newCensus() *census {
	return &census{live: map[types.UID]map[types.UID]string{}, made: map[types.UID]map[types.UID]string{}}
}

// put records that a Pod is stored at a version, and gone that it no longer is.
func (c *census) put(version int64, pod metav1.Object) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	for _, pods := range []map[types.UID]map[types.UID]string{c.live, c.made} {
		if pods[owner.UID] == nil {
			pods[owner.UID] = map[types.UID]string{}
		}
		pods[owner.UID][pod.GetUID()] = pod.GetName()
	}
	if now := c.live[owner.UID]; len(now) > 1 {
		c.violations = append(c.violations, fmt.Sprintf("at version %d %s %s has the Pods %s",
			version, owner.Name, owner.UID, strings.Join(slices.Sorted(maps.Values(now)), ", ")))
	}
}

func (c *census) gone(pod metav1.Object) {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		delete(c.live[owner.UID], pod.GetUID())
	}
}

// names are those of all Pods that an owner ever had, sorted.
func (c *census) names(owner types.UID) []string { return slices.Sorted(maps.Values(c.made[owner])) }

func TestTheCensusSeesTwoPodsAtOnce(t *testing.T) {
	owned := func(name, owner string) *corev1.Pod {
		controller := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{Kind: "PrefixedPod", Name: "p", UID: types.UID(owner), Controller: &controller}},
		}}
	}
	c := newCensus()
	c.put(1, owned("a", "one"))
	c.put(2, owned("b", "two"))
	c.put(3, owned("a", "one"))
	c.gone(owned("a", "one"))
	c.put(5, owned("c", "one"))
	c.put(6, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nobody's"}})
	if len(c.violations) != 0 || len(c.names("one")) != 2 {
		t.Errorf("violations %v, Pods of one %v", c.violations, c.names("one"))
	}
	c.put(7, owned("d", "one"))
	if len(c.violations) != 1 {
		t.Errorf("violations %v", c.violations)
	}
}
