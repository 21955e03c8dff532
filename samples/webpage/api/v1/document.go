package v1

import (
	"strings"

	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsDocument reports whether the HTML is a full document: it opens and closes <html> and <body>.
// Other HTML is served, too; browsers are lenient, and so is the operator.
func (s WebPageSpec) IsDocument() bool {
	wanted := map[string]bool{"html": true, "/html": true, "body": true, "/body": true}
	tokens := html.NewTokenizer(strings.NewReader(s.HTML))
	for {
		switch tokens.Next() {
		case html.ErrorToken: // the end: a tokenizer of a string has no other error
			return len(wanted) == 0
		case html.StartTagToken:
			name, _ := tokens.TagName()
			delete(wanted, string(name))
		case html.EndTagToken:
			name, _ := tokens.TagName()
			delete(wanted, "/"+string(name))
		}
	}
}

// ConditionDocument is false for HTML that is not a full document.
const ConditionDocument = "Document"

// SetDocument sets the condition Document.
func (s *WebPageStatus) SetDocument(full bool, generation int64) {
	condition := metav1.Condition{
		Type: ConditionDocument, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: "FullDocument", Message: "the html opens and closes <html> and <body>",
	}
	if !full {
		condition.Status, condition.Reason = metav1.ConditionFalse, "Fragment"
		condition.Message = "the html is served as it is, but does not open and close both <html> and <body>"
	}
	meta.SetStatusCondition(&s.Conditions, condition)
}
