package simulation

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = webpagev1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
	pageOptions = framework.ControllerOptions[*page]
)

const (
	namespace  = "default"
	keeperName = "keeper"
	// auditorName is that of the controller beside the keeper: what the one writes, the other must
	// see.
	auditorName      = "auditor"
	keeperFinalizer  = "samples.evenkeel.dev/webpage-finalizer"
	foreignFinalizer = "example.com/somebody-elses"
	// sharedName is the ConfigMap that is for those pages that its label names, separated by dots.
	sharedName = "shared"
	forLabel   = "for"
	foreigner  = "foreigner"
	// numberedMark is in the names of the numbered ConfigMaps, and in no others.
	numberedMark = "-number-"
)

func pageName(i int) string { return fmt.Sprintf("p%d", i) }

// mapsOf are the ConfigMaps that concern a page.
func (p plan) mapsOf(page string) []string {
	return append([]string{page + "-own", page + "-extra", page + "-audit", sharedName}, p.numbered(page)...)
}

// numbered are the ConfigMaps that a page has besides.
func (p plan) numbered(page string) (names []string) {
	for i := range p.many {
		names = append(names, fmt.Sprint(page, numberedMark, i))
	}
	return names
}

// primariesOf maps a ConfigMap to pages: those that own it, and those that its label names.
func primariesOf(m *corev1.ConfigMap) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, name := range pagesOf(m) {
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

func pagesOf(m metav1.Object) []string {
	var names []string
	for _, owner := range m.GetOwnerReferences() {
		if owner.Kind == "WebPage" {
			names = append(names, owner.Name)
		}
	}
	if label := m.GetLabels()[forLabel]; label != "" {
		names = append(names, strings.Split(label, ".")...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// statusOf is what the keeper makes of a page and what is shared.
func statusOf(uid types.UID, html string, shared map[string]string) string {
	return fmt.Sprintf("%s %s %s", uid, html, shared["theirs"])
}

// instanceOf is the instance of the operator that made a request.
func instanceOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, " ")
	return name
}

// isOwn tells whether a commit was made by a run of the controller for the page.
func isOwn(controller, page string, c apimodel.Commit) bool {
	if instanceOf(c.UserAgent) == foreigner {
		return false
	}
	if c.Verb == "delete" { // which carries no field manager
		return strings.HasSuffix(c.Object.GetName(), "-audit") == (controller == auditorName)
	}
	return c.Manager == controller || c.Manager == controller+"."+page
}

// draw is a number that depends on what is given alone: what happens to one part of the world does
// not change what happens to the others.
func draw(parts ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, parts...)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
