package framework_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// vanishing is an object that something happens to while it is compared.
type vanishing struct {
	corev1.ConfigMap
	Then *then
}

type then struct{ happens func() }

// SetResourceVersion lets it happen.
func (v *vanishing) SetResourceVersion(version string) {
	if v.Then.happens != nil {
		v.Then.happens()
	}
	v.ResourceVersion = version
}

func TestG16NothingIsRememberedOfAnObjectThatGoesWhileItIsComparedWithAMemory(t *testing.T) {
	at := func(version string, then *then) *vanishing {
		return &vanishing{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "1", ResourceVersion: version}}, Then: then}
	}
	var goes then
	if left := framework.LeftOfConfirmed(at("1", &goes), at("2", &goes), func(func()) {}); left != 1 {
		t.Errorf("of one that stays, %d memories are left", left)
	}
	if left := framework.LeftOfConfirmed(at("1", &goes), at("2", &goes), func(drop func()) { goes.happens = drop }); left != 0 {
		t.Errorf("%d memories are left", left)
	}
}
