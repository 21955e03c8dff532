package framework_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// TestG05APrimaryMayOwnOthersOfItsKind: what it creates makes that one due, and not itself, though
// the source of its secondaries has the controller's name.
func TestG05APrimaryMayOwnOthersOfItsKind(t *testing.T) {
	d := newDiary()
	var children framework.Secondary[*Page]
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Name != "parent" {
			return pageUpdate{}, nil
		}
		own, err := children.Get(c)
		if err != nil || own != nil {
			return pageUpdate{}, err
		}
		child := newPage(page.Namespace, "child")
		child.Spec.HTML = "child"
		_, err = framework.Create(ctx, c, child, framework.OwnedByPrimary())
		return pageUpdate{}, err
	}
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&children)}, func(v *virtual) {
		v.createPage("parent", "parent")
		v.pass(time.Minute)
		d.expect(t, "parent", "child")
		v.patch(&Page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child"}}, `{"metadata":{"labels":{"x":"y"}}}`)
		v.pass(time.Minute)
		d.expect(t, "parent")
		v.delete("child")
		v.pass(time.Minute)
		d.expect(t, "parent", "child")
		v.atRest()
	})
}
