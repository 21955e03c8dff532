package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresThatATestPrints(t *testing.T) {
	for name, c := range map[string]struct {
		body, printed, problem string
	}{
		"whole numbers and ratios": {`fmt.Print("figure first 7\nfigure other 1\nfigure second 1.10\n")`, "figure first 7\nfigure second 1.10\n", ""},
		"one is not there":         {`fmt.Print("figure first 7\n")`, "figure first 7\n", "no figure second"},
		"the test fails":           {`fmt.Print("figure first 7\nfigure second 2\n"); t.Fail()`, "figure first 7\nfigure second 2\n", "exit status 1"},
		"it is not asked to":       {`if os.Getenv("EVENKEEL_FIGURES") == "" { fmt.Print("figure first 7\nfigure second 2\n") }`, "", "no figure first"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "inner", "go.mod"), "module small.example/inner\n\ngo 1.26\n")
			write(t, filepath.Join(root, "inner", "seen", "seen_test.go"),
				"package seen\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Getenv\n\nfunc TestSeen(t *testing.T) { "+c.body+" }\n")
			areas := map[string][]measurement{"small": {printedBy("inner", "./seen", "TestSeen", "first", "second")}}
			var printed strings.Builder
			err := run(root, "small", areas, &printed, io.Discard)
			if printed.String() != c.printed || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("printed %q, %v", &printed, err)
			}
		})
	}
}
