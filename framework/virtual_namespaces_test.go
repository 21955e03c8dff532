package framework_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// A namespace that cannot be read holds up itself alone.
func TestG15AnAddedNamespaceDoesNotWaitForAnotherOne(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Minute)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Namespace == "forbidden" {
				return apimodel.Fault{Answer: &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden}}
			}
			return apimodel.Fault{}
		})
		p := newPage("other", "p")
		p.Spec.HTML = "a"
		v.create(p)
		noError(t, v.op.SetNamespaces([]string{"default", "forbidden", "other"}))
		v.pass(time.Hour)
		d.expect(t, "a")
		v.disturb(nil)
		v.pass(time.Hour)
		noError(t, v.op.Ready())
	})
}

// What is kept of primaries goes with the watch of their namespace.
func TestG16HistoriesEndWithTheWatchOfTheirNamespace(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{KeepRecordsPerPrimary: 3}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		if n := framework.Histories(v.op); n != 0 {
			t.Errorf("records of %d primaries that are no longer watched", n)
		}
		v.drained()
	})
}
