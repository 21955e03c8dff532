package freshnesstest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

const keeperFinalizer = "samples.evenkeel.dev/webpage-finalizer"

// verdict compares what the operator saw and did with the truth, at rest.
type verdict struct {
	history  *history
	said     testimony
	foreign  map[int64]bool
	deleted  map[types.UID]bool // by foreign clients
	auditor  bool
	problems []string
}

func (v *verdict) report(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *verdict) reach() []string {
	v.problems = append(v.problems, v.said.faults...)
	v.judgeClaims()
	for what, commits := range v.history.objects {
		v.judgeWrites(what, commits)
		now := commits[len(commits)-1]
		if what.kind != webPage || now.deleted {
			continue
		}
		if now.page.DeletionTimestamp != nil {
			v.report("G12: %s is not gone yet: finalizers %v", what, now.page.Finalizers)
			continue
		}
		v.judgeRuns("keeper", what, now)
		v.judgeState(what, now.page)
		if v.auditor {
			v.judgeRuns("auditor", what, now)
		}
	}
	slices.Sort(v.problems)
	return v.problems
}

// judgeClaims has the truth say whether what was not there was rightly not there.
func (v *verdict) judgeClaims() {
	for _, c := range v.said.claims {
		if !v.history.any(c.object.stored(), c.from, c.to, func(at commit) bool {
			return !at.visible || (c.primary != nil && !at.isFor(*c.primary))
		}) {
			v.report("G01/G03: %s was %s after %d (up to %d), for %v, but it was there all the time:%s",
				c.object, c.what, c.from, c.to, c.primary, v.history.describe(c.object.stored(), c.from))
		}
	}
}

// judgeWrites looks for writes that were about another object than they are on.
func (v *verdict) judgeWrites(what object, commits []commit) {
	for _, c := range commits {
		switch {
		case c.page != nil:
			if url := c.page.Status.URL; url != "" && !strings.HasPrefix(url, string(c.uid)) {
				v.report("G14: %s at %d has UID %s and the status of another: %s", what, c.revision, c.uid, url)
			}
		case c.tool != nil: // whose lines are of a page, not of the tool
		case c.deleted:
			if !v.deleted[c.uid] && !v.said.deleting[c.uid] {
				v.report("G14: %s at %d: nobody had meant to delete UID %s", what, c.revision, c.uid)
			}
		default:
			for key, line := range c.m.Data {
				if _, uid, ok := strings.Cut(line, "@"); ok && "@"+uid != byName && uid != string(c.uid) {
					v.report("G14: %s at %d has UID %s, and at %s what was meant for another: %s", what, c.revision, c.uid, key, line)
				}
			}
		}
	}
}

// judgeRuns looks for foreign changes that no run has seen, and for what was last seen and is
// obsolete.
func (v *verdict) judgeRuns(controller string, what object, now commit) {
	var visits []visit
	for _, r := range v.said.visits {
		if r.controller == controller && r.primary == what.key && r.uid == now.uid {
			visits = append(visits, r)
		}
	}
	if len(visits) == 0 {
		v.report("G04: no run of %s of %s with UID %s", controller, what, now.uid)
		return
	}
	for other := range v.history.objects {
		if other == what || (other.kind == configMap && other.key.Namespace == what.key.Namespace) {
			v.judgeSeen(controller, what.key, other, visits)
			v.judgeObsolete(controller, what.key, other, visits[len(visits)-1])
		}
	}
}

// judgeSeen: the last change of an object that is still there and the primary's was seen.
func (v *verdict) judgeSeen(controller string, primary trc.Key, other object, visits []visit) {
	now, _ := v.history.now(other)
	if !now.isFor(primary) {
		return
	}
	var last int64
	for _, c := range v.history.objects[other] {
		if c.uid == now.uid && v.isForeign(controller, other, c) {
			last = c.revision
		}
	}
	if last != 0 && !slices.ContainsFunc(visits, func(r visit) bool {
		seen := r.view[other]
		return seen.uid == now.uid && seen.version >= last
	}) {
		v.report("G04: no run of %s of %s (%d runs) began with %s at %d or later, the last began with it at %d:%s",
			controller, primary, len(visits), other, last, visits[len(visits)-1].view[other].version, v.history.describe(other, visits[len(visits)-1].view[other].version))
	}
}

// isForeign: to the keeper what foreign clients wrote, to the auditor also what the keeper did.
func (v *verdict) isForeign(controller string, what object, c commit) bool {
	return v.foreign[c.revision] || (controller == "auditor" && !strings.HasSuffix(what.key.Name, "-audit")) ||
		(controller == "keeper" && strings.HasSuffix(what.key.Name, "-audit"))
}

// judgeObsolete: the last run saw nothing as the primary's that has ceased to be it since.
func (v *verdict) judgeObsolete(controller string, primary trc.Key, other object, last visit) {
	seen := last.view[other]
	at := slices.IndexFunc(v.history.objects[other], func(c commit) bool { return c.revision == seen.version })
	if at < 0 || !v.history.objects[other][at].isFor(primary) {
		return
	}
	for _, c := range v.history.objects[other][at:] {
		if !c.isFor(primary) || c.uid != seen.uid {
			v.report("G04: the last run of %s of %s saw %s at %d, which is not its any more since %d:%s",
				controller, primary, other, seen.version, c.revision, v.history.describe(other, seen.version))
			return
		}
	}
}

// judgeState: the desired state stands.
func (v *verdict) judgeState(what object, p *page) {
	bad := func(name string, got, want any) { v.report("G12: %s of %s is %q, not %q", name, what, got, want) }
	var all []*corev1.ConfigMap
	data := map[string]map[string]string{}
	for other := range v.history.objects {
		if now, _ := v.history.now(other); other.kind == configMap && other.key.Namespace == what.key.Namespace && now.visible {
			data[other.key.Name] = now.m.Data
			all = append(all, now.m)
		}
	}
	if want := statusOf(p, all); p.Status.URL != want {
		bad("the status", p.Status.URL, want)
	}
	if got := data[p.Name+"-own"]["html"]; got != p.Spec.HTML {
		bad("the own ConfigMap", got, p.Spec.HTML)
	}
	if extra := data[p.Name+"-extra"]; (extra != nil) != p.Spec.Exposed || (extra != nil && extra["html"] != p.Spec.HTML) {
		bad("the extra ConfigMap", extra, fmt.Sprint(p.Spec))
	}
	for _, m := range all {
		if html, _, _ := strings.Cut(m.Data[p.Name], "@"); isFor(m, p.Name) && html != p.Spec.HTML {
			bad("its line in "+m.Name, html, p.Spec.HTML)
		}
	}
	if audit := data[p.Name+"-audit"]; v.auditor && (audit["status"] != p.Status.URL || audit["html"] != p.Spec.HTML) {
		bad("the audit", audit, p.Status.URL)
	}
	if !slices.Contains(p.Finalizers, keeperFinalizer) {
		bad("finalizers", p.Finalizers, keeperFinalizer)
	}
}
