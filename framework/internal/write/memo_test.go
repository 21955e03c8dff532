package write_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
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
	if left := write.LeftOfConfirmed(at("1", &goes), at("2", &goes), func(func()) {}); left != 1 {
		t.Errorf("of one that stays, %d memories are left", left)
	}
	if left := write.LeftOfConfirmed(at("1", &goes), at("2", &goes), func(drop func()) { goes.happens = drop }); left != 0 {
		t.Errorf("%d memories are left", left)
	}
}

func TestC101AnApplyIsLeftOutAsLongAsNothingChangedThatItCouldChangeBack(t *testing.T) {
	ours := map[string]any{"ours": "1"}
	intent := map[string]any{"metadata": map[string]any{"name": "m", "labels": ours, "annotations": ours}, "data": ours}
	for _, c := range []struct {
		name   string
		change func(*corev1.ConfigMap)
		want   bool
	}{
		{"nothing changed but the version", func(*corev1.ConfigMap) {}, true},
		{"others set an annotation of theirs", func(m *corev1.ConfigMap) { m.Annotations["theirs"] = "2" }, true},
		{"the generation grows with it, as that of a Deployment does", func(m *corev1.ConfigMap) { m.Generation, m.Annotations["theirs"] = 7, "2" }, true},
		{"others take off a label of theirs", func(m *corev1.ConfigMap) { delete(m.Labels, "theirs") }, true},
		{"others change an annotation of ours", func(m *corev1.ConfigMap) { m.Annotations["ours"] = "2" }, false},
		{"others take off a label of ours", func(m *corev1.ConfigMap) { delete(m.Labels, "ours") }, false},
		{"others take off all labels", func(m *corev1.ConfigMap) { m.Labels = nil }, false},
		{"others add to the content, which may be one field as a whole", func(m *corev1.ConfigMap) { m.Data["theirs"] = "2" }, false},
		{"others add a finalizer", func(m *corev1.ConfigMap) { m.Finalizers = []string{"example.com/theirs"} }, false},
		{"others add an owner", func(m *corev1.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{{UID: "2"}} }, false},
		{"it is another object", func(m *corev1.ConfigMap) { m.UID = "2" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: "m", UID: "1", ResourceVersion: "1",
					Labels: map[string]string{"ours": "1", "theirs": "1"}, Annotations: map[string]string{"ours": "1"},
				},
				Data: map[string]string{"ours": "1"},
			}
			now := was.DeepCopy()
			now.ResourceVersion = "2"
			c.change(now)
			for form, states := range map[string][2]trc.Object{"typed": {was, now}, "untyped": {contentOf(t, was), contentOf(t, now)}} {
				if got := write.Confirms(intent, states[0], states[1]); got != c.want {
					t.Errorf("%s: an apply is left out: %v, want %v", form, got, c.want)
				}
			}
		})
	}
}

func TestARequestAndAReadThatNobodyReadsOfCostNothing(t *testing.T) {
	if n := write.NoteAllocations(nil, &corev1.ConfigMap{}); n != 0 {
		t.Errorf("%v allocations per request and read, want 0", n)
	}
}

func contentOf(t *testing.T, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
