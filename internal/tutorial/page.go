package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// page is the steps of a page, in order.
type page struct{ steps []step }

// step is one block of the page, or one key to press. Exactly one of file, commands and interrupt
// is set.
type step struct {
	line      int    // of the page, from 1
	file      string // to write content to
	content   string
	commands  string // to type into the terminal
	terminal  int
	stays     bool     // the commands keep running
	expect    []string // lines that the commands print
	interrupt bool     // Ctrl-C in the terminal
}

var (
	fileLine      = regexp.MustCompile("^`([A-Za-z0-9_./-]+)`:$")
	terminalLine  = regexp.MustCompile(`^In terminal ([1-9])( \(keeps running\))?:$`)
	interruptLine = regexp.MustCompile(`^Press Ctrl-C in terminal ([1-9])\b`)
)

// parse reads a page. Its errors name the line.
func parse(text string) (page, error) {
	var p page
	lines := strings.Split(text, "\n")
	before := "" // the last line that was not empty
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t\r")
		fence, isFence := fenceOf(line)
		if !isFence {
			if match := interruptLine.FindStringSubmatch(line); match != nil {
				terminal, _ := strconv.Atoi(match[1]) // it is one digit
				p.steps = append(p.steps, step{line: i + 1, terminal: terminal, interrupt: true})
			}
			if line != "" {
				before = line
			}
			continue
		}
		start := i
		for i++; i < len(lines) && strings.TrimRight(lines[i], " \t\r") != fence.mark; i++ {
		}
		if i == len(lines) {
			return p, fmt.Errorf("line %d: the block does not end", start+1)
		}
		block := block{line: start + 1, language: fence.language, before: before, lines: lines[start+1 : i]}
		if err := p.add(block); err != nil {
			return p, fmt.Errorf("line %d: %w", start+1, err)
		}
		before = ""
	}
	for _, s := range p.steps {
		if s.stays && s.expect == nil {
			return p, fmt.Errorf("line %d: what keeps running needs a text block, which says when it is ready", s.line)
		}
	}
	if len(p.steps) == 0 {
		return p, errors.New("the page has no blocks")
	}
	return p, nil
}

// fence is the first line of a block; the block ends at a line that is mark.
type fence struct{ mark, language string }

func fenceOf(line string) (fence, bool) {
	trimmed := strings.TrimLeft(line, " \t")
	for _, char := range []string{"`", "~"} {
		language := strings.TrimLeft(trimmed, char)
		if n := len(trimmed) - len(language); n >= 3 {
			return fence{mark: strings.TrimSuffix(line, language), language: strings.TrimSpace(language)}, true
		}
	}
	return fence{}, false
}

// block is a fenced block and the last line of text before it.
type block struct {
	line             int
	language, before string
	lines            []string
}

func (p *page) add(b block) error {
	switch content := strings.Join(b.lines, "\n") + "\n"; b.language {
	case "go":
		match := fileLine.FindStringSubmatch(b.before)
		if match == nil {
			return fmt.Errorf("the line before a go block must name the file, as in \"`main.go`:\", but is %q", b.before)
		}
		p.steps = append(p.steps, step{line: b.line, file: match[1], content: content})
	case "sh":
		match := terminalLine.FindStringSubmatch(b.before)
		if match == nil {
			return fmt.Errorf(`the line before a sh block must name the terminal, as in "In terminal 1:", but is %q`, b.before)
		}
		terminal, _ := strconv.Atoi(match[1])
		p.steps = append(p.steps, step{line: b.line, commands: content, terminal: terminal, stays: match[2] != ""})
	case "text":
		if len(p.steps) == 0 || p.steps[len(p.steps)-1].commands == "" || p.steps[len(p.steps)-1].expect != nil {
			return errors.New("a text block must follow the sh block whose output it is")
		}
		for _, line := range b.lines {
			if line = normal(line); line != "" && line != "..." {
				p.steps[len(p.steps)-1].expect = append(p.steps[len(p.steps)-1].expect, line)
			}
		}
	default:
		return fmt.Errorf("a block in %q: want go, sh or text", b.language)
	}
	return nil
}

// normal makes runs of blanks one: tables have columns as wide as what is in them.
func normal(line string) string { return strings.Join(strings.Fields(line), " ") }

// missing returns the first expected line that the output does not have, in order, or "".
func missing(expect []string, output string) string {
	lines := strings.Split(output, "\n")
	for _, want := range expect {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, ".*") + "$")
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(normal(lines[0]))
			lines = lines[1:]
		}
		if !found {
			return want
		}
	}
	return ""
}

// commandsOf returns the commands of a page that need nothing but its line: those that run a
// published module.
func commandsOf(text string) page {
	const terminal = 9 // one that no page has
	var p page
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "go run "+modules["."]) {
			p.steps = append(p.steps, step{line: i + 1, commands: line + "\n", terminal: terminal})
		}
	}
	return p
}
