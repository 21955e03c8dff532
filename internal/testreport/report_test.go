package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/*.txt from what is printed")

// TestStreams compares what is printed for the streams in testdata, which were recorded with go
// test -json, with what is expected.
func TestStreams(t *testing.T) {
	for name, passes := range map[string]bool{
		"pass": true, "fail": false, "panic": false, "build": false, "timeout": false, "exit": false, "unfinished": false,
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := os.Open(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			var printed strings.Builder
			r := newReport(&printed)
			if err := r.read(stream); err != nil {
				t.Fatal(err)
			}
			if passed := r.end(); passed != passes {
				t.Errorf("passed: %v, want %v", passed, passes)
			}
			r.printSlowest(3)
			expect(t, filepath.Join("testdata", name+".txt"), printed.String())
		})
	}
}

func expect(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
	}
}

func TestTheWarningAboutTheDetectorIsLeftOut(t *testing.T) {
	r := newReport(io.Discard)
	warning := "W1125 15:59:55.687585   16267 mutation_detector.go:54] Mutation detector is enabled, this will result in memory leakage.\n"
	r.add(event{Action: "output", Package: "p", Test: "TestA", Output: "•" + warning})
	r.add(event{Action: "output", Package: "p", Test: "TestA", Output: "W1125 15:59:55.687585   16267 store.go:54] another\n"})
	if got := strings.Join(r.running["p"].lines["TestA"], ""); got != "•W1125 15:59:55.687585   16267 store.go:54] another\n" {
		t.Errorf("%q", got)
	}
}

func TestNothingOfAFailedTestIsHidden(t *testing.T) {
	lines := []string{"    a_test.go:1: logged", "        more of it", "    indented", "=== begins like a frame", "--- like a result", "panic: oh", ""}
	stream := strings.NewReplacer("@", strings.Join(lines, `\n`)).Replace(
		`{"Action":"output","Package":"p","Test":"TestA","Output":"@"}` + "\n" +
			`{"Action":"fail","Package":"p","Test":"TestA"}` + "\n" +
			`{"Action":"output","Package":"p","Output":"@"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n")
	var printed strings.Builder
	r := newReport(&printed)
	if err := r.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if n := strings.Count(printed.String(), line+"\n"); line != "" && n != 2 {
			t.Errorf("%q is printed %d times, want twice:\n%s", line, n, &printed)
		}
	}
}

func TestTheNumberOfSecondsIsKeptIfAllHasPassed(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "test_seconds")
	for _, c := range []struct {
		stream string
		passed bool
	}{{"pass", true}, {"fail", false}, {"pass", true}, {"", false}} {
		var stream []byte
		if c.stream != "" {
			var err error
			if stream, err = os.ReadFile(filepath.Join("testdata", c.stream+".json")); err != nil {
				t.Fatal(err)
			}
		}
		var printed strings.Builder
		passed, err := run(strings.NewReader(string(stream)), &printed, "", keep)
		if err != nil || passed != c.passed || !strings.HasSuffix(printed.String(), "figure test_seconds 0\n") {
			t.Errorf("%q: passed %v, %v\n%s", c.stream, passed, err, &printed)
		}
		if content, _ := os.ReadFile(keep); (string(content) == "0\n") != c.passed {
			t.Errorf("%q: kept %q", c.stream, content)
		}
	}
}

func TestStreamsThatFollowEachOtherAreOneReport(t *testing.T) {
	stream, err := os.ReadFile(filepath.Join("testdata", "pass.json"))
	if err != nil {
		t.Fatal(err)
	}
	specs := filepath.Join(t.TempDir(), "specs")
	line := `{"suite":"framework","spec":"Own writes","seconds":7.25}` + "\n"
	if err := os.WriteFile(specs, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	passed, err := run(strings.NewReader(string(stream)+string(stream)), &printed, specs, "")
	if err != nil || !passed {
		t.Fatal(passed, err)
	}
	if got := printed.String(); strings.Count(got, "\nok  \trecorded.example/pass\t") != 2 || !strings.Contains(got, "the slowest 4 of 4 packages:\n") ||
		!strings.Contains(got, "the slowest 9 of 9 tests and specs:\n     7.2 s  framework: Own writes\n") {
		t.Errorf("got\n%s", got)
	}
}
