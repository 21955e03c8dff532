package framework_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// vanishing is an object that something happens to while it is looked at.
type vanishing struct {
	corev1.ConfigMap
	Then *then
}

type then struct{ happens func() }

// MarshalJSON lets it happen.
func (t *then) MarshalJSON() ([]byte, error) {
	if t.happens != nil {
		t.happens()
	}
	return json.Marshal(nil)
}

func TestG16NothingIsRememberedOfAnObjectThatGoesWhileItIsComparedWithAMemory(t *testing.T) {
	live := &vanishing{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "1", ResourceVersion: "1"}}, Then: &then{}}
	if left := framework.DropsWhileConfirmed(live, func(drop func()) { live.Then.happens = drop }); left != 0 {
		t.Errorf("%d memories are left", left)
	}
}
