package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const fence3 = "```"

func TestAPageBecomesSteps(t *testing.T) {
	p, err := parse("# Title\n\n`a/b.go`:\n\n" + fence3 + "go\npackage b\n" + fence3 + "\n\nIn terminal 2 (keeps running):\n\n" +
		fence3 + "sh\nserve\n" + fence3 + "\n\n" + fence3 + "text\nready   at ...\n\n...\n" + fence3 + "\n\nPress Ctrl-C in terminal 2. It ends.\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.steps) != 3 {
		t.Fatalf("got %+v", p.steps)
	}
	if s := p.steps[0]; s.file != "a/b.go" || s.content != "package b\n" || s.line != 5 {
		t.Errorf("got %+v", s)
	}
	if s := p.steps[1]; s.commands != "serve\n" || s.terminal != 2 || !s.stays || len(s.expect) != 1 || s.expect[0] != "ready at ..." {
		t.Errorf("got %+v", s)
	}
	if s := p.steps[2]; !s.interrupt || s.terminal != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestABlockThatNobodyWouldRunIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no language":             fence3 + "\nls\n" + fence3,
		"another language":        fence3 + "yaml\na: b\n" + fence3,
		"in the margin":           "- a point\n\n  " + fence3 + "\n  ls\n  " + fence3,
		"tildes":                  "~~~\nls\n~~~",
		"a file without a name":   fence3 + "go\npackage a\n" + fence3,
		"no terminal":             fence3 + "sh\nls\n" + fence3,
		"output of nothing":       fence3 + "text\na\n" + fence3,
		"no end":                  "In terminal 1:\n" + fence3 + "sh\nls\n",
		"never known to be ready": "In terminal 1 (keeps running):\n" + fence3 + "sh\nls\n" + fence3,
		"nothing":                 "text",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOutputMustComeInOrder(t *testing.T) {
	for _, c := range []struct {
		expect []string
		output string
		want   string
	}{
		{[]string{"a", "b"}, "a\nother\n  b \n", ""},
		{[]string{"a", "b"}, "b\na\n", "b"},
		{[]string{"a", "a"}, "a\n", "a"},
		{[]string{"a ... c"}, "a b c\n", ""},
		{[]string{"a"}, "abc\n", "a"},
		{[]string{"a.c"}, "abc\n", "a.c"},
	} {
		if got := missing(c.expect, c.output); got != c.want {
			t.Errorf("%q in %q: got %q, want %q", c.expect, c.output, got, c.want)
		}
	}
}

// follow follows a page without modules.
func follow(t *testing.T, text string) error {
	t.Helper()
	p, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{
		folder: t.TempDir(), scratch: t.TempDir(), environment: os.Environ(), limit: time.Minute, stop: make(chan struct{}),
		show: func(line string) { t.Log(line) }, terminals: map[int]*terminal{}, running: map[int]running{},
	}
	defer r.close()
	return r.follow(p)
}

func sh(where, commands string) string {
	return where + "\n" + fence3 + "sh\n" + commands + fence3 + "\n"
}

func text(lines string) string { return fence3 + "text\n" + lines + fence3 + "\n" }

// server is a program that stays until it is told to end, and then ends with the code.
const server = `cat >serve <<'END'
#!/bin/bash
trap 'echo stopped; exit '"$1" INT
trap 'echo stopped; exit '"$2" TERM
echo ready
while :; do sleep 0.05; done
END
chmod +x serve
`

func TestWhatAPageSaysIsDone(t *testing.T) {
	const first, second, stays = "In terminal 1:", "In terminal 2:", "In terminal 2 (keeps running):"
	started := sh(first, server) + sh(stays, "./serve 0 0\n") + text("ready\n")
	end := "Press Ctrl-C in terminal 2.\n"
	for _, c := range []struct{ name, page, want string }{
		{"a terminal keeps its folder and variables", sh(first, "mkdir a && cd a\nA=1\n") + sh(first, "echo $A $(basename $PWD)\n") + text("1 a\n"), ""},
		{"terminals are apart", sh(first, "A=1\n") + sh(second, "echo \"<$A>\"\n") + text("<>\n"), ""},
		{"a command fails", sh(first, "false\n"), "exit code 1"},
		{"a command fails, and others do not", sh(first, "false\ntrue\n"), "exit code 1"},
		{"an unknown command", sh(first, "no-such-command\n"), "exit code 127"},
		{"the shell ends", sh(first, "exit 0\n"), "the terminal has closed"},
		{"output that does not come", sh(first, "echo a\n") + text("b\n"), `do not print "b"`},
		{"a server", started + end, ""},
		{"a server is not ended", started, "does not end what keeps running"},
		{"a server is ended twice", started + end + end, "nothing keeps running"},
		{"a busy terminal", started + sh(second, "ls\n"), "terminal 2 is busy"},
		{"a server that ends by itself", sh(stays, "echo a\n") + text("ready\n"), "have ended"},
		{"a server that Ctrl-C ends badly", strings.Replace(started, "./serve 0 0", "./serve 3 0", 1) + end, "after Ctrl-C: exit code 3"},
		{"a server that SIGTERM ends badly", strings.Replace(started, "./serve 0 0", "./serve 0 4", 1) + end, "after SIGTERM: exit code 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := follow(t, c.page)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// checkout is the root of this checkout.
var checkout = filepath.Join("..", "..")

func content(t *testing.T, name string) string {
	t.Helper()
	read, err := os.ReadFile(filepath.Join(checkout, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(read)
}

// TestTheTutorialIsUnderstood is the part of make tutorial that needs no control plane.
func TestTheTutorialIsUnderstood(t *testing.T) {
	p, err := parse(content(t, "docs/getting-started.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, commands, ends := 0, 0, 0
	for _, s := range p.steps {
		switch {
		case s.file != "":
			files++
		case s.interrupt:
			ends++
		default:
			commands++
		}
	}
	if files < 2 || commands < 5 || ends < 2 {
		t.Errorf("%d files, %d blocks of commands, %d ends: the page has more", files, commands, ends)
	}
}

var (
	blocks     = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	comments   = regexp.MustCompile(`(?m)\s*//.*$`)
	blanks     = regexp.MustCompile(`(?m)^\s+|\s+$`)
	makeTarget = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	links      = regexp.MustCompile(`\]\(([^):]+)\)`)
)

func bare(code string) string {
	return blanks.ReplaceAllString(comments.ReplaceAllString(code, ""), "")
}

// TestREADMEShowsTheCodeThatIsThere finds each Go block, up to comments and blanks, in the samples.
func TestREADMEShowsTheCodeThatIsThere(t *testing.T) {
	var samples []string
	files, err := filepath.Glob(filepath.Join(checkout, "samples", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, bare(string(code)))
	}
	all, found := strings.Join(samples, "\n"), 0
	for _, block := range blocks.FindAllStringSubmatch(content(t, "README.md"), -1) {
		if block[1] != "go" {
			continue
		}
		found++
		// What stands between blank lines is shown by itself.
		for part := range strings.SplitSeq(strings.TrimSpace(block[2]), "\n\n") {
			if !strings.Contains(all, bare(part)) {
				t.Errorf("no sample has\n%s", part)
			}
		}
	}
	if found == 0 {
		t.Error("no Go block is found")
	}
}

// TestREADMENamesWhatExists is about make's targets and the links.
func TestREADMENamesWhatExists(t *testing.T) {
	readme, makefile := content(t, "README.md"), content(t, "Makefile")
	targets := 0
	for _, match := range makeTarget.FindAllStringSubmatch(readme, -1) {
		targets++
		if !strings.Contains(makefile, "\n"+match[1]+":") {
			t.Errorf("there is no make %s", match[1])
		}
	}
	for page, folder := range map[string]string{"README.md": ".", "docs/getting-started.md": "docs"} {
		for _, match := range links.FindAllStringSubmatch(content(t, page), -1) {
			if _, err := os.Stat(filepath.Join(checkout, folder, match[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if targets < 3 || len(commandsOf(readme).steps) == 0 {
		t.Errorf("only %d targets and %d commands are found", targets, len(commandsOf(readme).steps))
	}
}

// TestTheModulesArePackedAsTheyArePublished lists what the go command would unpack.
func TestTheModulesArePackedAsTheyArePublished(t *testing.T) {
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	r, err := publish(root, folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		list := exec.Command("go", "list", "-m", "-versions", module+"@latest")
		list.Dir = t.TempDir()
		list.Env = append(os.Environ(), "GOPROXY=file://"+folder, "GONOSUMDB=*", "GONOPROXY=none", "GOWORK=off", "GO111MODULE=on")
		if output, err := list.CombinedOutput(); err != nil || !strings.Contains(string(output), r.version) {
			t.Errorf("%s: %v: %s", module, err, output)
		}
	}
	if err := r.forget(); err != nil {
		t.Error(err)
	}
}
