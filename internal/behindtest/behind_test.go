package behindtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// all are the lives of the specs, and free those in between, one for each kind.
type all struct {
	lives, free []*life
	errs        map[*life]error
}

// newAll starts the operators.
func newAll() *all {
	GinkgoHelper()
	ns := namespace()
	watching, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	kinds := []schema.GroupVersionKind{podKind, databaseKind, appKind}
	for _, w := range workloads {
		kinds = append(kinds, w.GroupVersionKind)
	}
	observer, err := observe(watching, ns, kinds...)
	Expect(err).NotTo(HaveOccurred())
	operate("guard", ns, registerGuard)
	apps := operate("apps", ns, registerApps)
	newLife := func(w workload, by way, held bool) *life {
		return &life{
			workload: w, way: by, ns: ns, name: w.controller() + "-" + by.key, held: held,
			observer: observer, apps: apps, freed: map[types.UID]bool{},
		}
	}
	a := &all{errs: map[*life]error{}}
	for _, w := range workloads {
		for _, by := range ways {
			a.lives = append(a.lives, newLife(w, by, true))
		}
		a.free = append(a.free, newLife(w, undisturbed, false))
	}
	return a
}

// play plays all lives side by side.
func (a *all) play() {
	a.each(a.lives, (*life).begin)
	a.each(a.free, (*life).begin)
	a.each(a.free, (*life).end)
	a.each(a.lives, (*life).end)
}

// each has some lives do something, unless they have failed.
func (a *all) each(lives []*life, do step) {
	started := time.Now()
	errs := make([]error, len(lives))
	var acting sync.WaitGroup
	for i, l := range lives {
		if errs[i] = a.errs[l]; errs[i] == nil {
			acting.Go(func() { errs[i] = do(l, ctx) })
		}
	}
	acting.Wait()
	for i, l := range lives {
		a.errs[l] = errs[i]
	}
	took := time.Since(started).Round(time.Millisecond)
	AddReportEntry("lives", fmt.Sprintf("%d in %v", len(lives), took))
}

// errOf is what is wrong with the life of a kind and a way.
func (a *all) errOf(w workload, by way) error {
	for _, l := range a.lives {
		if l.Kind == w.Kind && l.way.key == by.key {
			return a.errs[l]
		}
	}
	return fmt.Errorf("there is no life of %s, %s", w.Kind, by.name)
}

const suiteName = "What stands behind a gate, on a whole control plane"

var _ = Describe(suiteName, Ordered, ContinueOnFailure, func() {
	var played *all
	BeforeAll(func() {
		played = newAll()
		played.play()
	})
	for _, w := range workloads {
		for _, by := range ways {
			what := fmt.Sprintf("G10 keeps the database while a Pod of a %s is there: ", w.Kind)
			It(what+by.name, func() {
				Expect(played.errOf(w, by)).To(Succeed())
			})
		}
	}
	It("G10 lets all go of which no Pod is held", func() {
		for _, l := range played.free {
			Expect(played.errs[l]).To(Succeed(), strings.ToLower(l.Kind))
		}
	})
})
