package interlock

import (
	"fmt"
	"math/bits"
	"strings"
)

// setText names providers.
func setText(s set) string {
	var all []string
	for ; s != 0; s &= s - 1 {
		all = append(all, fmt.Sprintf("p%d", bits.TrailingZeros8(uint8(s))))
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, " and ")
}

func (p provider) String() string {
	if p.uid == 0 {
		return "does not exist"
	}
	return fmt.Sprintf("version %d, UID %d%s%s", p.version, p.uid, mark(p.guarded, ", kept"), mark(p.deleting, ", in deletion"))
}

func (d dependent) String() string {
	if d.uid == 0 {
		return "does not exist"
	}
	return fmt.Sprintf("version %d, UID %d%s%s, refers to %s, claims %s", d.version, d.uid,
		mark(d.kept, ", with a finalizer"), mark(d.deleting, ", in deletion"), setText(d.refs), setText(d.claims))
}

func mark(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func (q request) String() string {
	if q.verb == 0 {
		return "nothing"
	}
	what := [...]string{
		guardProvider: "put the finalizer on p%d", letProviderGo: "take the finalizer off p%d", keepDependent: "put the finalizer on d%d",
		letDependentGo: "take the finalizer off d%d", claimProviders: "write the claims of d%d",
	}[q.verb]
	text := fmt.Sprintf(what, q.which)
	if q.verb == claimProviders {
		text += " as " + setText(q.claims)
	}
	if q.version != 0 {
		return text + fmt.Sprintf(", if of version %d and UID %d", q.version, q.uid)
	}
	return text + fmt.Sprintf(", if of UID %d", q.uid)
}

func (r *guardRun) text() string {
	switch r.phase {
	case idle:
		return "over"
	case deciding:
		if r.looking.lists {
			return "mayGo is to list the dependents"
		}
		return "mayGo is to look at the cache"
	}
	return "is to " + r.request.String()
}

func (r *gateRun) text() string {
	switch {
	case r.phase == idle:
		return "over"
	case r.answered:
		return fmt.Sprintf("is to hear that it is %s: %s", [...]string{done: "done", stale: "of another version", gone: "gone"}[r.said], r.request)
	case r.phase == implementing:
		return "granted, is to implement"
	case r.phase == tearing:
		return "is to tear the implementation down"
	case r.phase == acquires && r.asked.ready:
		return fmt.Sprintf("acquire is to go on with %s", r.asked.given.text(r.asked.question))
	case r.phase == acquires && r.request.verb == 0:
		return "acquire is to ask: " + r.asked.question.String()
	}
	return "is to " + r.request.String()
}

func (q question) String() string {
	switch q.about {
	case aboutClaim:
		return "is the claim there that the cache shows?"
	case aboutProvider:
		return fmt.Sprintf("what is p%d?", q.provider)
	}
	return fmt.Sprintf("does the cache show that d%d of UID %d claims p%d of UID %d?", q.dependent, q.uid[0], q.provider, q.uid[1])
}

func (a reply) text(q question) string {
	switch {
	case a.failed:
		return "a failure"
	case q.about == aboutClaim:
		return "the claims of " + setText(a.carried)
	case q.about == aboutVouching:
		return fmt.Sprintf("%q: %v", q, a.yes)
	case a.reason != 0:
		return Reason(a.reason).String()
	}
	return fmt.Sprintf("p%d of UID %d", q.provider, a.uid)
}

func (in held) String() string {
	var all []string
	for s := in.by; s != 0; s &= s - 1 {
		at := bits.TrailingZeros8(uint8(s))
		all = append(all, fmt.Sprintf("d%d of UID %d", at/maxUID, at%maxUID+1))
	}
	if all == nil {
		return "nobody"
	}
	return strings.Join(all, " and ") + fmt.Sprintf(" hold UID %d", in.uid)
}
