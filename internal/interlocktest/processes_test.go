package interlocktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

// operator is one that comes and goes, in a process and behind a proxy of its own each time. It is
// for one goroutine.
type operator struct {
	role, ns string
	random   *rand.Rand
	log      lines
	kills    int

	command *exec.Cmd // the one that runs
	stdin   io.Closer
	proxy   *faultproxy.Proxy
}

func newOperator(role, ns string, seed uint64) *operator {
	stream := uint64(1)
	if role == guardRole {
		stream = 2
	}
	return &operator{role: role, ns: ns, random: rand.New(rand.NewPCG(seed, stream))}
}

// start starts it behind one of its plans.
func (o *operator) start() error {
	plan, err := readPlan(fmt.Sprintf("%s-%d.yaml", o.role, 1+o.random.IntN(2)))
	if err != nil {
		return err
	}
	plan.Seed = o.random.Uint64()
	if o.proxy, err = faultproxy.Start(env.Config, plan); err != nil {
		return err
	}
	config := o.proxy.Config()
	order, err := json.Marshal(operatorOrder{Role: o.role, Namespace: o.ns, Host: config.Host, CA: config.CAData})
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	o.command = exec.Command(program)
	o.command.Env = append(os.Environ(), operatorVariable+"="+string(order))
	o.command.Stdout, o.command.Stderr = &o.log, &o.log
	o.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not for it
	if o.stdin, err = o.command.StdinPipe(); err != nil {
		return err
	}
	return o.command.Start()
}

func readPlan(name string) (faultproxy.Plan, error) {
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		return faultproxy.Plan{}, err
	}
	plan, err := faultproxy.Parse(file)
	return plan, errors.Join(err, file.Close())
}

// kill ends it at once, with all that is on its way: when it returns, no request of it is sent any
// more, and the API server is done with those that were sent.
func (o *operator) kill() error {
	if o.command == nil {
		return nil
	}
	err := o.command.Process.Kill()
	ended := o.command.Wait() // says that it was killed
	o.proxy.Finish()
	o.proxy.Stop()
	if o.command.ProcessState.Exited() {
		err = fmt.Errorf("the %s has ended by itself: %v\n%s", o.role, ended, strings.Join(o.log.about(""), "\n"))
	}
	o.command = nil
	o.kills++
	return err
}

// stop lets it end by itself.
func (o *operator) stop() error {
	if err := o.stdin.Close(); err != nil {
		return err
	}
	err := o.command.Wait()
	o.proxy.Stop()
	o.command = nil
	return err
}

// beKilledAgainAndAgain kills and starts it until told to end; then it runs.
func (o *operator) beKilledAgainAndAgain(end <-chan struct{}) error {
	for {
		// Half of the lives are too short to get far.
		life := time.Duration(500+o.random.IntN(3000)) * time.Millisecond
		if o.random.IntN(2) == 0 {
			life *= 4
		}
		over := time.NewTimer(life)
		select {
		case <-end:
			over.Stop()
			return nil
		case <-over.C:
		}
		if err := errors.Join(o.kill(), o.start()); err != nil {
			return err
		}
	}
}

// lines keeps the newest of what an operator says.
type lines struct {
	mu   sync.Mutex // guards below
	kept []string
	rest string // of a line that has not ended
}

// Write is for the output of a process.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(l.rest+string(text), "\n")
	l.rest = all[len(all)-1]
	if l.kept = append(l.kept, all[:len(all)-1]...); len(l.kept) > 20_000 {
		l.kept = slices.Clone(l.kept[10_000:])
	}
	return len(text), nil
}

// about returns the last lines with one of the words.
func (l *lines) about(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.kept {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found[max(0, len(found)-40):]
}
