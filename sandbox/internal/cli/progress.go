package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

const progressInterval = 100 * time.Millisecond

// progress shows on a terminal what is being started and for how long.
type progress struct {
	w io.Writer

	mu    sync.Mutex // guards what follows, and writing
	step  string     // "" between steps
	began time.Time
	quit  chan struct{}
}

// newProgress returns nil, which is silent, unless w is a terminal.
func newProgress(w *os.File) *progress {
	if !term.IsTerminal(int(w.Fd())) {
		return nil
	}
	return &progress{w: w}
}

// report is a [sandbox.Options.Progress].
func (p *progress) report(event sandbox.Progress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if event.Done {
		p.endLocked()
		fmt.Fprintf(p.w, "\r\x1b[K  %-8s %s\n", seconds(event.Took), event.Step)
		return
	}
	p.step, p.began, p.quit = event.Step, time.Now(), make(chan struct{})
	p.drawLocked()
	go p.tick(p.quit)
}

// abort ends the line of a step that failed.
func (p *progress) abort() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.step != "" {
		p.endLocked()
		fmt.Fprintln(p.w)
	}
}

func (p *progress) endLocked() {
	if p.step != "" {
		p.step = ""
		close(p.quit)
	}
}

func (p *progress) drawLocked() {
	fmt.Fprintf(p.w, "\r\x1b[K  %-8s %s ...", seconds(time.Since(p.began)), p.step)
}

// tick keeps the seconds of the current step running.
func (p *progress) tick(quit chan struct{}) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		if p.quit == quit && p.step != "" {
			p.drawLocked()
		}
		p.mu.Unlock()
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
