package interlocktest

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// namesIn are the names of the apps and databases whose UIDs are in a problem.
func (h *history) namesIn(problem string) (names []string) {
	for uid, a := range h.apps {
		if strings.Contains(problem, string(uid)) {
			names = append(names, a.name)
		}
	}
	for uid, d := range h.databases {
		if strings.Contains(problem, string(uid)) {
			names = append(names, d.name)
		}
	}
	return names
}

// tell tells what was written last of the objects that a problem names.
func (h *history) tell(problem string) []string {
	names := map[string]bool{}
	for _, name := range h.namesIn(problem) {
		names[name] = true
	}
	var told []string
	for _, e := range h.told {
		_, name := h.scope(e.Key)
		id := implementationOf(name)
		if names[name] || id.database != "" && names[h.nameOf(id.app)] && names[h.nameOf(id.database)] {
			told = append(told, e.String()+": "+describe(e))
		}
	}
	return told[max(0, len(told)-60):]
}

func (h *history) nameOf(uid types.UID) string {
	if a := h.apps[uid]; a != nil {
		return a.name
	}
	if d := h.databases[uid]; d != nil {
		return d.name
	}
	return ""
}

// describe tells what matters of what was written.
func describe(e testenv.Event) string {
	object, err := e.Object()
	if err != nil {
		return err.Error()
	}
	o := object.(metav1.Object)
	text := fmt.Sprintf("uid %s, finalizers %v, in deletion %v", o.GetUID(), o.GetFinalizers(), o.GetDeletionTimestamp() != nil)
	if a, is := object.(*app); is {
		of := relation()
		text += fmt.Sprintf(", uses %s, claims %v", a.Data[usesKey], of.Claims(a))
	}
	return text
}
