package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// testkit runs the tests that measure the test kit. Lives per second are those of the WebPage
// story.
func testkit(root string, notes io.Writer) ([]string, error) {
	sums := map[string]int{}
	for _, folder := range []string{"./frameworktest", "./samples/webpage", "./samples/prefixedpod", "./framework/interlock"} {
		fmt.Fprintf(notes, "measuring %s\n", folder)
		printed, err := goCommand(root, []string{"EVENKEEL_FIGURES=1"}, "test", "-vet=off", "-count=1", "-timeout=30m", "-run=^TestFigures$", "-v", folder)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(bytes.NewReader(printed)); lines.Scan(); {
			var name string
			var value int
			if n, _ := fmt.Sscanf(lines.Text(), "kit %s %d", &name, &value); n < 2 {
				continue
			}
			fmt.Fprintf(notes, "%s %s\n", folder, lines.Text())
			if name != "lives_per_second" || folder == "./samples/webpage" {
				sums[name] += value
			}
		}
	}
	return texts(sums["lives_per_second"], sums["bad_operators_found"], sums["false_alarms"]), nil
}

// authorLines counts the lines of a sample's scenario, with the test that runs it.
func authorLines(sample string) func(string, io.Writer) ([]string, error) {
	return func(root string, _ io.Writer) ([]string, error) {
		content, err := os.ReadFile(filepath.Join(root, "samples", sample, "scenario_test.go"))
		if err != nil {
			return nil, err
		}
		_, rest, found := strings.Cut(string(content), "\nvar scenario = ")
		block, _, ended := strings.Cut(rest, "\n}\n")
		const test = "frameworktest.Everywhere(t, scenario)"
		if !found || !ended || !strings.Contains(rest, test) {
			return nil, fmt.Errorf("no scenario, or no test of it, in samples/%s: %s", sample, strconv.Quote(test))
		}
		lines := 2 // the last one and the test
		for line := range strings.Lines(block) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		return texts(lines), nil
	}
}
