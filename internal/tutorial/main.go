package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	pages := flag.String("page", filepath.Join("docs", "getting-started.md"), "page to follow, relative to the checkout")
	readme := flag.String("readme", "README.md", "page whose commands on published modules run at the end")
	verbose := flag.Bool("v", false, "print what is typed and what comes back")
	keep := flag.Bool("keep", false, "leave the folder")
	limit := flag.Duration("limit", 30*time.Minute, "how long one step may take; the first may build Kubernetes")
	flag.Parse()
	if err := run(*pages, *readme, *verbose, *keep, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "tutorial:", err)
		os.Exit(1)
	}
}

func run(name, readme string, verbose, keep bool, limit time.Duration) (err error) {
	checkout, err := checkoutRoot()
	if err != nil {
		return err
	}
	p, commands, err := read(checkout, name, readme)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "evenkeel-tutorial-")
	if err != nil {
		return err
	}
	if !keep {
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	}
	r, forget, err := newReader(checkout, folder, limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	defer r.close()
	if verbose {
		r.show = func(line string) { fmt.Println(line) }
	}
	// Ctrl-C ends the terminals, which have groups of their own, and what they left.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- errors.Join(named(name, r.follow(p)), named(readme, r.follow(commands))) }()
	select {
	case err = <-done:
	case <-interrupted:
		close(r.stop)
		<-done
		return errors.New("interrupted")
	}
	if err == nil {
		fmt.Printf("%s: all %d steps do what the page says; so do %d of %s\n", name, len(p.steps), len(commands.steps), readme)
	}
	return err
}

func named(page string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return nil
}

// read reads the page to follow, and the commands of the other one.
func read(checkout, name, readme string) (p, commands page, err error) {
	content, err := readFile(checkout, name)
	if err != nil {
		return p, commands, err
	}
	if p, err = parse(content); err != nil {
		return p, commands, named(name, err)
	}
	content, err = readFile(checkout, readme)
	if err != nil {
		return p, commands, err
	}
	commands = commandsOf(content)
	if len(commands.steps) == 0 {
		err = fmt.Errorf("%s: no command is found", readme)
	}
	return p, commands, err
}

func readFile(checkout, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(checkout, name)
	}
	content, err := os.ReadFile(name)
	return string(content), err
}

// newReader returns a reader in a fresh folder. Call forget when it has read.
func newReader(checkout, folder string, limit time.Duration) (r *reader, forget func() error, err error) {
	r = &reader{
		folder: filepath.Join(folder, "home"), scratch: filepath.Join(folder, "scratch"), limit: limit,
		show: func(string) {}, stop: make(chan struct{}), terminals: map[int]*terminal{}, running: map[int]running{},
	}
	packed := filepath.Join(folder, "modules")
	for _, name := range []string{r.folder, r.scratch, packed} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return nil, nil, err
		}
	}
	registry, err := publish(checkout, packed)
	if err != nil {
		return nil, nil, err
	}
	environment, err := registry.environment()
	if err != nil {
		return nil, nil, err
	}
	// A reader has no control plane yet, and no settings of ours.
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "KUBECONFIG=") && !strings.HasPrefix(variable, "EVENKEEL_") {
			r.environment = append(r.environment, variable)
		}
	}
	return r, registry.forget, nil
}

// checkoutRoot is the folder of this checkout's module.
func checkoutRoot() (string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", modules["."]).Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}
