package browsertest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "the folder to write the pictures of docs to")

// theBrowser is the context of the one that all tests share, nil without one.
var theBrowser context.Context

// noBrowser is why there is none.
var noBrowser string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var problems bytes.Buffer
	install := exec.Command("../../tools/browser")
	install.Stderr = &problems
	path, err := install.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		noBrowser = fmt.Sprintf("tools/browser: %v: %s", err, lines[len(lines)-1])
		if install.ProcessState.ExitCode() != 1 {
			fmt.Fprintln(os.Stderr, noBrowser)
			return 1
		}
		return m.Run()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(strings.TrimSpace(string(path))),
		chromedp.NoSandbox, // it opens nothing but our own pages, and needs no user namespaces so
		chromedp.DisableGPU)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, stop := chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the browser does not start:", err)
		return 1
	}
	theBrowser = ctx
	return m.Run()
}

// window is a window of the browser, and what its pages complain of.
type window struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex // guards below
	complaints []string
}

// look is how a window shows pages. The zero value is a large, light one with scripts.
type look struct {
	phone, dark, noScript bool
}

func (l look) String() string {
	text := map[bool]string{false: "on a large screen", true: "on a phone"}[l.phone]
	return text + map[bool]string{true: " at night"}[l.dark]
}

// open opens a window. Nothing in it takes longer than two minutes.
func open(t *testing.T, l look) *window {
	t.Helper()
	if theBrowser == nil {
		t.Skip(noBrowser)
	}
	ctx, stop := chromedp.NewContext(theBrowser, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	w := &window{t: t, ctx: ctx}
	noError(t, chromedp.Listen(ctx, w.hear))
	viewport, scheme := chromedp.EmulateViewport(1100, 800), "light"
	if l.phone {
		viewport = chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateScale(1.5))
	}
	if l.dark {
		scheme = "dark"
	}
	call(w, audits.Enable, cdp.Empty{})
	call(w, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	call(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	w.do(viewport)
	return w
}

// hear keeps errors and warnings of the console, exceptions, what could not be loaded, and what the
// Content-Security-Policy has refused.
func (w *window) hear(event any) {
	complain := func(format string, arguments ...any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.complaints = append(w.complaints, fmt.Sprintf(format, arguments...))
	}
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, argument := range e.Args {
			complain("console.%s: %s", e.Type, argument.Value)
		}
	case *runtime.EventExceptionThrown:
		complain("exception %v", e.ExceptionDetails)
	case *log.EventEntryAdded:
		complain("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		complain("issue %s", e.Issue.Code)
	}
}

func (w *window) heard() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.complaints, "\n")
}

// result returns what an action does.
func result[T any](w *window, action chromedp.Action[T]) T {
	w.t.Helper()
	answer, err := chromedp.Run(w.ctx, action)
	if err != nil {
		w.t.Fatal(errors.Join(err, context.Cause(w.ctx)))
	}
	return answer
}

func (w *window) do(actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	result(w, chromedp.Steps(actions...))
}

// call sends a command of the protocol.
func call[P, R any](w *window, command cdp.Command[P, R], parameters P) R {
	w.t.Helper()
	return result(w, func(ctx context.Context, _ *chromedp.Target) (R, error) {
		return chromedp.Call(ctx, command, parameters)
	})
}

// see opens a page, which must not complain.
func (w *window) see(url string) {
	w.t.Helper()
	w.do(chromedp.Navigate(url))
	if heard := w.heard(); heard != "" {
		w.t.Errorf("%s: %s", url, heard)
	}
}

// ask returns what an expression of JavaScript says of the page. It may be a promise.
func ask[T any](w *window, expression string) T {
	w.t.Helper()
	return result(w, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true of the page, which it asks after each change of it.
func (w *window) until(expression string) {
	w.t.Helper()
	ask[bool](w, `new Promise((done) => {
		const holds = () => { if (`+expression+`) { watch.disconnect(); done(true); } };
		const watch = new MutationObserver(holds);
		watch.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
		holds();
	})`)
}
