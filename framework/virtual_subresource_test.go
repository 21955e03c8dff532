package framework_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// TestG03DoSucceedsWhereItsObjectIsGone, and reads show none from then on, though the watch is
// silent.
func TestG03DoSucceedsWhereItsObjectIsGone(t *testing.T) {
	r := &pages{}
	var v *virtual
	done := 0
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		found, err := r.configMaps.GetNamed(c, p.Namespace, p.Name)
		if err != nil || found == nil {
			return pageUpdate{}, err
		}
		left, err := framework.Do(ctx, c, found, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return nil, v.admin.Delete(ctx, configMapOf(p, ""))
		})
		if err != nil || left != nil {
			t.Errorf("left %v, %v", left, err)
		}
		if found, err = r.configMaps.GetNamed(c, p.Namespace, p.Name); err != nil || found != nil {
			t.Errorf("reads show %v, %v", found, err)
		}
		done++
		return pageUpdate{}, nil
	}
	inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(virtual *virtual) {
		v = virtual
		page := newPage("default", "p")
		v.create(configMapOf(page, "x"))
		v.pass(time.Second)
		v.model.Stall("configmaps")
		v.create(page)
		v.pass(time.Minute)
		v.model.Release("configmaps")
		v.pass(time.Minute)
		if done != 1 {
			t.Errorf("done %d times", done)
		}
		v.atRest()
	})
}

// TestG01ARunBeginsWithWhatADoHasDoneThatCouldNotBeRead.
func TestG01ARunBeginsWithWhatADoHasDoneThatCouldNotBeRead(t *testing.T) {
	r := &pages{}
	var v *virtual
	var read []string
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		found, err := r.configMaps.GetNamed(c, p.Namespace, p.Name)
		if err != nil {
			return pageUpdate{}, err
		}
		read = append(read, found.Data["data"])
		if found.Data["data"] == "done" {
			return pageUpdate{}, nil
		}
		_, err = framework.Do(ctx, c, found, func(context.Context) (*corev1.ConfigMap, error) {
			v.patch(configMapOf(p, ""), `{"data":{"data":"done"}}`)
			return nil, nil
		})
		return pageUpdate{}, err
	}
	inVirtualTime(t, r, withConfigMaps(r, pageOptions{Retry: everySecond}), func(virtual *virtual) {
		v = virtual
		page := newPage("default", "p")
		v.create(configMapOf(page, "new"))
		v.pass(time.Second)
		v.model.Lag("configmaps", time.Hour)
		unread := 2
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "get" && unread > 0 {
				unread--
				return apimodel.Fault{Drop: true}
			}
			return apimodel.Fault{}
		})
		v.create(page)
		v.pass(10 * time.Minute)
		if len(read) != 2 || read[0] != "new" || read[1] != "done" {
			t.Errorf("runs read %q", read)
		}
	})
}

// TestASubresourceThatIsNotServedIsRefusedBeforeAnythingIsSent.
func TestASubresourceThatIsNotServedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inVirtualTime(t, unwatched(), pageOptions{}, func(v *virtual) {
		page := newPage("default", "p")
		v.create(page)
		v.pass(time.Minute)
		v.writes()
		w := v.op.Writer("outside")
		_, patched := framework.MergePatch(context.Background(), w, page, []byte(`{"spec":{"replicas":1}}`), framework.Subresource("scale"))
		_, updated := framework.Update(context.Background(), w, v.page("p"), framework.Subresource("scale"))
		_, created := framework.Create(context.Background(), w, &corev1.Binding{ObjectMeta: page.ObjectMeta})
		expectError(t, patched, "no such sub-resource", "status", "nothing was sent")
		expectError(t, updated, "no such sub-resource")
		expectError(t, created, "pods/binding", "Do")
		if sent := v.writes(); len(sent) > 0 {
			t.Errorf("sent %q", sent)
		}
	})
}
