// Command evenkeel makes operator projects.
//
//	go run github.com/evenkeel/evenkeel/cmd/evenkeel@VERSION new example.com/greetings Greeting
//
// makes the folder greetings with an operator that runs: a kind, its reconciler, a test, manifests,
// a Makefile and a Dockerfile. "make test" in the folder generates the rest and tests it.
//
// In such a folder, the version that the project requires needs no @VERSION: there,
//
//	go run github.com/evenkeel/evenkeel/cmd/evenkeel add Farewell
//	go run github.com/evenkeel/evenkeel/cmd/evenkeel manifests
//
// add a kind, and print what to apply to a cluster.
//
// # Concurrency
//
// It is a program. Two of them must not change one folder at the same time.
//
// # What it does not do
//
// It changes no file that it has made before, but for the lines that add wires a new kind with. It
// does not follow changes of its templates: a project belongs to its author.
//
// # Debugging
//
// Each error names the argument, or the file, and its value. If add refuses, nothing is written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

const usage = `evenkeel makes operator projects.

  evenkeel new MODULE KIND [flags]   make a project in a new folder, named like the end of MODULE
  evenkeel add KIND [flags]          add a kind to the project in this folder
  evenkeel manifests                 generate the manifests of this project, and print all of them

Example:
  evenkeel new example.com/greetings Greeting

Flags of new and add:
  -plural NAME   of the kind, in lower case; default: by the rules of English, as greetings
Flags of new:
  -group NAME    of the API; default: from MODULE, as example.com, or alice.github.com for
                 github.com/alice/greetings
  -replace DIR   use the checkout of evenkeel in DIR, instead of the version of this program
`

func main() {
	folder, err := os.Getwd()
	if err == nil {
		c := command{folder: folder, version: version(debug.ReadBuildInfo()), out: os.Stdout, err: os.Stderr}
		err = c.run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "evenkeel:", err)
		os.Exit(1)
	}
}

// version returns the published version of evenkeel that this program was built from, empty if it
// was built from a checkout.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok || info.Main.Path != evenkeel || info.Main.Version == "(devel)" || strings.Contains(info.Main.Version, "+dirty") {
		return ""
	}
	return info.Main.Version
}

// command is one run of the program.
type command struct {
	folder   string // the current one
	version  string // of evenkeel; empty: none is published
	out, err io.Writer
}

// arguments are those of a command, without its name.
type arguments struct {
	words                  []string
	group, plural, replace string
}

func (c command) run(args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	name, args := args[0], args[1:]
	wants := map[string]string{"new": "MODULE KIND", "add": "KIND", "manifests": ""}
	want, known := wants[name]
	switch {
	case strings.TrimLeft(name, "-") == "help", name == "-h":
		_, err := fmt.Fprint(c.out, usage)
		return err
	case !known:
		return fmt.Errorf("command %q: want new, add or manifests; see evenkeel help", name)
	}
	a, err := parse(name, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err := fmt.Fprint(c.out, usage)
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case len(a.words) != len(strings.Fields(want)):
		return fmt.Errorf("%s: arguments %q: want %q; see evenkeel help", name, a.words, want)
	}
	switch name {
	case "new":
		err = c.create(a)
	case "add":
		err = c.add(a)
	case "manifests":
		err = c.manifests()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// parse reads the arguments of a command. Flags may stand anywhere, as with kubectl.
func parse(name string, args []string) (a arguments, err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if name != "manifests" {
		flags.StringVar(&a.plural, "plural", "", "")
	}
	if name == "new" {
		flags.StringVar(&a.group, "group", "", "")
		flags.StringVar(&a.replace, "replace", "", "")
	}
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return a, err
		}
		if args = flags.Args(); len(args) > 0 {
			a.words, args = append(a.words, args[0]), args[1:]
		}
	}
	return a, nil
}
