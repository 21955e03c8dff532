// Package spectimes records how long the specs of a ginkgo suite take, for the table at the end of
// make test. The go command only knows how long the whole suite takes.
//
//	var _ = ReportAfterEach(spectimes.Append)
//
// Each spec that ran becomes one line of the file that the environment variable EVENKEEL_SPEC_TIMES
// names:
//
//	{"suite":"framework","spec":"Own writes survive a restart","seconds":1.25}
//
// Without the variable, nothing is written.
//
// # Concurrency
//
// Several test processes may append to the same file.
package spectimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/onsi/ginkgo/v2"
)

// Variable names the file.
const Variable = "EVENKEEL_SPEC_TIMES"

// line is one spec. Suite is the package without the path of the module.
type line struct {
	Suite   string  `json:"suite"`
	Spec    string  `json:"spec"`
	Seconds float64 `json:"seconds"`
}

// Append appends the time of a spec to the file, unless it was skipped. It fails the spec if that
// fails.
func Append(spec ginkgo.SpecReport) {
	file := os.Getenv(Variable)
	if file == "" || spec.RunTime == 0 {
		return
	}
	if err := write(file, line{suite(), spec.FullText(), spec.RunTime.Seconds()}); err != nil {
		ginkgo.Fail(fmt.Sprintf("spectimes: %v", err))
	}
}

// suite returns the package that is tested.
func suite() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSuffix(info.Path, ".test"), "github.com/evenkeel/evenkeel/")
}

// write appends a line in one call, so that lines of several processes do not mix.
func write(file string, l line) error {
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	return errors.Join(err, f.Close())
}
