package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAuthorLinesAreThoseOfTheScenarioAndItsTest(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "samples", "page")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	count := func(content string) ([]string, error) {
		if err := os.WriteFile(filepath.Join(folder, "scenario_test.go"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return authorLines("page")(root, io.Discard)
	}
	source := "package page\n\nvar scenario = frameworktest.Scenario{\n\tCRDs: \"crd\",\n\n\tStory: func(w *frameworktest.World) {\n\t\tw.Rest()\n\t},\n}\n\n" +
		"func TestEverywhere(t *testing.T) { frameworktest.Everywhere(t, scenario) }\n"
	if got, err := count(source); err != nil || !slices.Equal(got, []string{"7"}) {
		t.Errorf("%v, %v, want 7", got, err)
	}
	for _, missing := range []string{"var scenario", "frameworktest.Everywhere"} {
		if got, err := count(strings.Replace(source, missing, "none", 1)); err == nil {
			t.Errorf("without %s: %v", missing, got)
		}
	}
}
