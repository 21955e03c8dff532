package weathertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// chronicle is what was really written to the pages and ConfigMaps of a namespace, as etcd tells
// it.
type chronicle struct {
	ns    string
	truth *testenv.Truth
}

// commit is one write. Exactly one of page and configMap is set: as stored, or of a deletion, as
// stored before.
type commit struct {
	revision  int64
	uid       types.UID
	name      string
	deleted   bool
	page      *page
	configMap *corev1.ConfigMap
}

// begin writes down everything from now on.
func begin(ns string) *chronicle {
	GinkgoHelper()
	truth, err := env.Truth(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(truth.Stop)
	return &chronicle{ns, truth}
}

// commits returns all that was written before the call, in order.
func (c *chronicle) commits() (all []commit) {
	GinkgoHelper()
	Expect(c.truth.WaitNow(ctx)).To(Succeed())
	for _, e := range c.truth.Events() {
		if !strings.HasPrefix(e.Key, "/registry/configmaps/"+c.ns+"/") && !strings.HasPrefix(e.Key, "/registry/samples.evenkeel.dev/webpages/"+c.ns+"/") {
			continue
		}
		o, err := e.Object()
		Expect(err).NotTo(HaveOccurred())
		now := commit{revision: e.Revision, deleted: e.Deleted, uid: o.(metav1.Object).GetUID(), name: o.(metav1.Object).GetName()}
		switch o := o.(type) {
		case *corev1.ConfigMap:
			now.configMap = o
		case *unstructured.Unstructured:
			now.page = &page{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, now.page)).To(Succeed())
		}
		all = append(all, now)
	}
	return all
}

// pages returns the history of every page that there was, by UID.
func (c *chronicle) pages() map[types.UID][]commit {
	GinkgoHelper()
	all := map[types.UID][]commit{}
	for _, at := range c.commits() {
		if at.page != nil {
			all[at.uid] = append(all[at.uid], at)
		}
	}
	return all
}

// last is the revision of the last write.
func (c *chronicle) last() int64 {
	GinkgoHelper()
	all := c.commits()
	return all[len(all)-1].revision
}

// finalizers are what the page has after the commit.
func (c commit) finalizers() []string {
	if c.deleted {
		return nil
	}
	return c.page.Finalizers
}

// missing are the elements of a list that another lacks.
func missing(list, other []string) (lost []string) {
	for _, s := range list {
		if !slices.Contains(other, s) {
			lost = append(lost, s)
		}
	}
	return lost
}

// claimOf names the ConfigMap that stands for what a controller has to clean up for the very page.
func claimOf(controller string, uid types.UID) string { return fmt.Sprintf("%s-%s", controller, uid) }

// claims are when those ConfigMaps came and went, by name.
type claims map[string]struct{ made, gone int64 }

func claimsIn(commits []commit) claims {
	all := claims{}
	for _, c := range commits {
		if c.configMap == nil {
			continue
		}
		at := all[c.name]
		if c.deleted {
			at.gone = c.revision
		} else if at.made == 0 {
			at.made = c.revision
		}
		all[c.name] = at
	}
	return all
}

func versionOf(o metav1.Object) int64 {
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion of %s: %v", o.GetName(), err))
	}
	return version
}
