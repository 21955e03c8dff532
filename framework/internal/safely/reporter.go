package safely

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/internal/author"
)

// Reporter logs when the author's code fails or is slow.
type Reporter struct{ logger logr.Logger }

// NewReporter returns a reporter that writes to a log.
func NewReporter(logger logr.Logger) Reporter { return Reporter{logger} }

// Failed logs that the author's code did not return.
func (r Reporter) Failed(callback, about string, failure *author.Failure) {
	values := []any{"callback", callback, "about", about}
	if failure.Stack != nil {
		values = append(values, "stack", string(failure.Stack))
	}
	r.logger.Error(Error(failure), "the author's code did not return", values...)
}

// Slow logs that the author's code took long.
func (r Reporter) Slow(callback, about string, took time.Duration) {
	r.logger.Info("the author's code is slow", "callback", callback, "about", about, "took", took.String())
}

// Returned logs that code which had hung has returned.
func (r Reporter) Returned(callback string, took time.Duration) {
	r.logger.Info("the author's code has returned after all", "callback", callback, "took", took.String())
}
