package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
)

// printedBy measures with a test that prints lines "figure NAME VALUE". The module is a folder
// below the root.
func printedBy(module, folder, test string, figures ...string) measurement {
	return measurement{figures, func(root string, notes io.Writer) ([]string, error) {
		fmt.Fprintf(notes, "measuring %s of %s\n", test, filepath.Join(module, folder))
		printed, err := goCommand(filepath.Join(root, module), []string{"EVENKEEL_FIGURES=1"},
			"test", "-vet=off", "-count=1", "-timeout=30m", "-run=^"+test+"$", "-v", folder)
		var values []string
		for _, name := range figures {
			found := regexp.MustCompile(`(?m)^figure ` + name + ` (\S+)$`).FindSubmatch(printed)
			if found == nil {
				return values, errors.Join(err, fmt.Errorf("%s printed no figure %s", test, name))
			}
			values = append(values, string(found[1]))
		}
		return values, err
	}}
}
