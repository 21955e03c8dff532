package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// drawing is the drawing of a workflow: nodes in rows by wave, dependencies above the nodes that
// depend on them. Numbers are in pixels.
type drawing struct {
	Width, Height int
	Boxes         []box
	Lines         []string // paths of SVG
}

// box is a node in a drawing.
type box struct {
	X, Y, Width, Height int
	// Name and Below are shortened, Title is the whole text.
	Name, Below, Title string
	Class              string
}

// Middle returns the horizontal middle of the box.
func (b box) Middle() int { return b.X + b.Width/2 }

// NameY returns the base line of the name.
func (b box) NameY() int {
	if b.Below == "" {
		return b.Y + 28
	}
	return b.Y + 19
}

// BelowY returns the base line of the text below the name.
func (b box) BelowY() int { return b.Y + 36 }

const (
	boxHeight       = 46
	minBox, maxBox  = 96, 216
	letter, padding = 7.4, 26 // of a text of 13 pixels
	longest         = 25      // letters of a text in a box
	betweenBoxes    = 18
	betweenRows     = 38
	passing         = 12 // the width of a line that passes a row
	border          = 2
)

// item is what takes a place in a row: a box, or a line that passes the row.
type item struct {
	node         int // -1: a line
	middle, wide float64
	above, below []*item
}

// draw lays a workflow out. It returns nil if there are no nodes.
func draw(nodes []WorkflowNode) *drawing {
	if len(nodes) == 0 {
		return nil
	}
	d := &drawing{}
	for _, n := range nodes {
		d.Boxes = append(d.Boxes, boxOf(n))
	}
	rows, edges := rowsOf(nodes, d.Boxes)
	arrange(rows)
	left, right := math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		for _, i := range row {
			left, right = min(left, i.middle-i.wide/2), max(right, i.middle+i.wide/2)
		}
	}
	for y, row := range rows {
		for _, i := range row {
			i.middle += border - left
			if i.node >= 0 {
				b := &d.Boxes[i.node]
				b.X, b.Y = int(i.middle)-b.Width/2, topOf(y)
			}
		}
	}
	for _, e := range edges {
		d.Lines = append(d.Lines, lineOf(e.wave, e.items))
	}
	d.Width, d.Height = int(right-left)+2*border, topOf(len(rows)-1)+boxHeight+border
	return d
}

func topOf(row int) int { return border + row*(boxHeight+betweenRows) }

// edge is a way from a dependency, in the row of its wave, to a node in one of the rows below it.
type edge struct {
	wave  int
	items []*item
}

// rowsOf puts the nodes into rows, and lines that pass rows between them.
func rowsOf(nodes []WorkflowNode, boxes []box) (rows [][]*item, edges []edge) {
	byName := map[string]*item{}
	add := func(wave int, i *item) *item {
		for len(rows) <= wave {
			rows = append(rows, nil)
		}
		rows[wave] = append(rows[wave], i)
		return i
	}
	for n, node := range nodes {
		byName[node.Name] = add(node.Wave, &item{node: n, wide: float64(boxes[n].Width)})
	}
	for _, node := range nodes {
		for _, name := range node.DependsOn {
			from := byName[name]
			if from == nil || nodes[from.node].Wave >= node.Wave {
				continue
			}
			e := edge{nodes[from.node].Wave, []*item{from}}
			for wave := e.wave + 1; wave < node.Wave; wave++ {
				e.items = append(e.items, add(wave, &item{node: -1, wide: passing}))
			}
			e.items = append(e.items, byName[node.Name])
			for i := range e.items[1:] {
				e.items[i].below = append(e.items[i].below, e.items[i+1])
				e.items[i+1].above = append(e.items[i+1].above, e.items[i])
			}
			edges = append(edges, e)
		}
	}
	return rows, edges
}

// sweeps is how often the rows are arranged by their neighbours, down and up.
const sweeps = 3

// arrange orders each row and places its items, so that lines are short and cross seldom: each item
// goes to the mean of its neighbours in the row above, then below, and so on. (Sugiyama, Tagawa,
// Toda: Methods for Visual Understanding of Hierarchical System Structures, 1981.)
func arrange(rows [][]*item) {
	for _, row := range rows {
		place(row)
	}
	for range sweeps {
		for _, row := range rows {
			follow(row, func(i *item) []*item { return i.above })
		}
		for _, row := range slices.Backward(rows) {
			follow(row, func(i *item) []*item { return i.below })
		}
	}
}

// follow arranges a row by the neighbours of its items.
func follow(row []*item, neighbours func(*item) []*item) {
	for _, i := range row {
		if others := neighbours(i); len(others) > 0 {
			sum := 0.0
			for _, n := range others {
				sum += n.middle
			}
			i.middle = sum / float64(len(others))
		}
	}
	slices.SortStableFunc(row, func(a, b *item) int { return cmp.Compare(a.middle, b.middle) })
	place(row)
}

// place moves the items of a row apart, from where they are: it is the mean of what moving them to
// the right and moving them to the left brings.
func place(row []*item) {
	rightwards, leftwards := make([]float64, len(row)), make([]float64, len(row))
	apart := func(a, b int) float64 { return (row[a].wide+row[b].wide)/2 + betweenBoxes }
	for i := range row {
		rightwards[i] = row[i].middle
		if i > 0 {
			rightwards[i] = max(rightwards[i], rightwards[i-1]+apart(i-1, i))
		}
	}
	for i := len(row) - 1; i >= 0; i-- {
		leftwards[i] = row[i].middle
		if i < len(row)-1 {
			leftwards[i] = min(leftwards[i], leftwards[i+1]-apart(i, i+1))
		}
	}
	for i := range row {
		row[i].middle = (rightwards[i] + leftwards[i]) / 2
	}
}

// lineOf returns the path of an arrow that begins in a row.
func lineOf(row int, items []*item) string {
	var path strings.Builder
	fmt.Fprintf(&path, "M%.0f %d", items[0].middle, topOf(row)+boxHeight)
	for _, to := range items[1:] {
		from := items[0].middle
		items = items[1:]
		row++
		y := topOf(row)
		middle := y - betweenRows/2
		fmt.Fprintf(&path, "C%.0f %d %.0f %d %.0f %d", from, middle, to.middle, middle, to.middle, y)
		if to.node < 0 {
			fmt.Fprintf(&path, "V%d", y+boxHeight)
			continue
		}
		fmt.Fprintf(&path, "m-4 -6l4 6l4 -6")
	}
	return path.String()
}

// boxOf returns the box of a node, without a place.
func boxOf(n WorkflowNode) box {
	b := box{Height: boxHeight, Name: shortened(n.Name), Class: "idle", Title: n.Name}
	below := conditionsOf(n)
	if n.State != "" {
		look := looks[n.State]
		b.Class = cmp.Or(look.class, "idle")
		below = strings.TrimSpace(look.symbol + " " + n.State)
		b.Title += ": " + n.State
		if n.Reason != "" {
			b.Title += ": " + n.Reason
		}
	} else if len(n.Conditions) > 0 {
		b.Title += ": " + strings.Join(n.Conditions, ", ")
	}
	b.Below = shortened(below)
	letters := max(len([]rune(b.Name)), len([]rune(b.Below)))
	b.Width = min(maxBox, max(minBox, int(letter*float64(letters))+padding))
	return b
}

// conditionsOf names the conditions that decide whether there is a node. Nearly all nodes have the
// others.
func conditionsOf(n WorkflowNode) string {
	var names []string
	for _, c := range []struct {
		step workflow.Step
		name string
	}{{workflow.ActivationCondition, "activation"}, {workflow.ReconcilePrecondition, "precondition"}} {
		if slices.Contains(n.Conditions, c.step.String()) {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, ", ")
}

func shortened(text string) string {
	if letters := []rune(text); len(letters) > longest {
		return string(letters[:longest-1]) + "…"
	}
	return text
}

// looks say how states look, by name: a class of the style sheet, and a symbol for those who do not
// see colours.
var looks = map[string]struct{ class, symbol string }{
	workflow.Ready.String():     {"ready", "✓"},
	workflow.Failed.String():    {"failed", "✕"},
	workflow.NotReady.String():  {"underway", "…"},
	workflow.Deleting.String():  {"underway", "…"},
	workflow.Waiting.String():   {"idle", "‖"},
	workflow.Skipped.String():   {"idle", "‖"},
	workflow.Cancelled.String(): {"idle", "‖"},
	workflow.Deleted.String():   {"absent", "–"},
	workflow.Inactive.String():  {"absent", "–"},
	workflow.Left.String():      {"absent", "–"},
}
