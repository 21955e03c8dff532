package framework_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var _ = Describe("A fight on an API server", func() {
	for name, mode := range map[string]framework.WriteMode{"apply": framework.ByApply, "patch": framework.ByPatch} {
		It("is named with both field managers and the fields, by "+name, func() {
			ns, r := namespace(), applies()
			op, stop := operate(ns, r, withConfigMaps(r, pageOptions{SecondaryWrites: mode, KeepRecords: 100}))
			page := create(newPage(ns, "p"))
			kept := configMapOf(page, "")
			data := func() string { return read(configMapOf(page, "")).Data["data"] }
			Eventually(data).Should(Equal(page.Spec.HTML))
			for i := range 3 {
				rival := fmt.Appendf(nil, `{"data":{"data":"%d","more":"%d"}}`, i, i)
				Expect(admin.Patch(ctx, kept, client.RawPatch("application/merge-patch+json", rival), client.FieldOwner("rival"))).To(Succeed())
				Eventually(data).Should(Equal(page.Spec.HTML))
			}
			named := func() (texts []string) {
				for _, record := range op.Records("webpage") {
					for _, fight := range record.Fights {
						texts = append(texts, fight.String())
					}
				}
				return texts
			}
			Eventually(named).Should(ConsistOf("rival and webpage keep changing data.data of ConfigMap " + ns + "/p: set back 3 times"))
			Eventually(func() (notes []string) {
				list := &eventsv1.EventList{}
				Expect(admin.List(ctx, list, client.InNamespace(ns))).To(Succeed())
				for _, e := range list.Items {
					if e.Reason == framework.ReasonFight {
						notes = append(notes, e.Note)
					}
				}
				return notes
			}).Should(ConsistOf(HavePrefix("rival and webpage keep changing data.data")))
			Expect(strings.Join(named(), "")).NotTo(ContainSubstring(page.Spec.HTML))
			Expect(stop()).To(Succeed())
		})
	}
})
