package workflow

import (
	"fmt"
	"strings"
)

// colours are the colours of the drawings, by state.
var colours = [...]struct{ class, fill string }{
	Cancelled: {"idle", "#e0e0e0"}, Waiting: {"idle", "#e0e0e0"}, Skipped: {"idle", "#e0e0e0"},
	Failed:   {"failed", "#f4b6b6"},
	NotReady: {"underway", "#fbe3a6"}, Deleting: {"underway", "#fbe3a6"},
	Ready:   {"ready", "#b7e1b1"},
	Deleted: {"absent", "#ffffff"}, Inactive: {"absent", "#ffffff"}, Left: {"absent", "#ffffff"},
}

// mermaid draws the nodes by number, because their names may contain anything.
func (s *shape) mermaid(nodes []NodeResult) string {
	var text strings.Builder
	text.WriteString("flowchart TD\n")
	for i, name := range s.names {
		label := mermaidText(name)
		if nodes == nil {
			fmt.Fprintf(&text, "  n%d[\"%s\"]\n", i, label)
			continue
		}
		for _, line := range nodes[i].lines() {
			label += "<br/>" + mermaidText(line)
		}
		fmt.Fprintf(&text, "  n%d[\"%s\"]:::%s\n", i, label, colours[nodes[i].State].class)
	}
	for i := range s.names {
		for _, d := range s.dependents[i] {
			fmt.Fprintf(&text, "  n%d --> n%d\n", i, d)
		}
	}
	classes(&text, nodes)
	return text.String()
}

// classes writes the classes of the nodes, in the order of the states.
func classes(text *strings.Builder, nodes []NodeResult) {
	used := map[string]bool{}
	for i := range nodes {
		used[colours[nodes[i].State].class] = true
	}
	for _, c := range colours {
		if used[c.class] {
			fmt.Fprintf(text, "  classDef %s fill:%s,color:#000\n", c.class, c.fill)
			used[c.class] = false
		}
	}
}

// dot draws the same for Graphviz.
func (s *shape) dot(nodes []NodeResult) string {
	var text strings.Builder
	text.WriteString("digraph workflow {\n  node [shape=box];\n")
	for i, name := range s.names {
		label := dotText(name)
		if nodes == nil {
			fmt.Fprintf(&text, "  n%d [label=\"%s\"];\n", i, label)
			continue
		}
		for _, line := range nodes[i].lines() {
			label += `\n` + dotText(line)
		}
		fmt.Fprintf(&text, "  n%d [label=\"%s\", style=filled, fillcolor=\"%s\"];\n", i, label, colours[nodes[i].State].fill)
	}
	for i := range s.names {
		for _, d := range s.dependents[i] {
			fmt.Fprintf(&text, "  n%d -> n%d;\n", i, d)
		}
	}
	return text.String() + "}\n"
}

// maxLine is the maximum length of a reason in a drawing, in characters, because errors can be
// long.
const maxLine = 80

// lines returns the lines of a node in a drawing, below its name. They contain no times, so that
// equal results have equal drawings.
func (n *NodeResult) lines() []string {
	lines := []string{n.State.String()}
	if n.Reason == "" {
		return lines
	}
	reason := []rune(n.Reason)
	if len(reason) > maxLine {
		reason = append(reason[:maxLine-1], '…')
	}
	return append(lines, string(reason))
}

// mermaidText writes everything except letters, digits and harmless punctuation as an entity:
// quotes would end the label, and markup would be interpreted.
func mermaidText(text string) string {
	var escaped strings.Builder
	for _, c := range text {
		switch {
		case c < ' ' || c == 0x7f:
			escaped.WriteByte(' ')
		case c > 0x7f || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(" .,:-_/()=+'", c):
			escaped.WriteRune(c)
		default:
			fmt.Fprintf(&escaped, "#%d;", c)
		}
	}
	return escaped.String()
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

func dotText(text string) string { return dotEscapes.Replace(text) }
