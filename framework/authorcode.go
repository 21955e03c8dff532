package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/internal/author"
)

// hungTooLong is how long code of the author's may hang until [Operator.Alive] says so: within a minute.
const hungTooLong = 45 * time.Second

// reporter says in the log what code of the author's does.
type callReporter struct{ logger logr.Logger }

// Failed is called when code of the author's did not return.
func (r callReporter) Failed(callback, about string, failure *author.Failure) {
	values := []any{"callback", callback, "about", about}
	if failure.Stack != nil {
		values = append(values, "stack", string(failure.Stack))
	}
	r.logger.Error(failed(failure), "the author's code did not return", values...)
}

// Slow is called when it took long.
func (r callReporter) Slow(callback, about string, took time.Duration) {
	r.logger.Info("the author's code is slow", "callback", callback, "about", about, "took", took.String())
}

// Returned is called when it has returned after all.
func (r callReporter) Returned(callback string, took time.Duration) {
	r.logger.Info("the author's code has returned after all", "callback", callback, "took", took.String())
}

// hung is what code of the author's has not returned for longer than some time; nil if there is none.
func hung(longer time.Duration, of ...*author.Callbacks) error {
	var errs []error
	var all []author.Hung
	for _, calls := range of {
		all = append(all, calls.Hung()...)
	}
	named := map[string]bool{}
	for _, h := range all {
		if since := time.Since(h.Since); since >= longer && !named[h.Callback] {
			named[h.Callback] = true
			errs = append(errs, fmt.Errorf("framework: %s has not returned for %v", h.Callback, since.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// tried calls code of the author's in this goroutine. What panics there is an error, and the error that it returns is safe
// to handle.
func tried(call func() error) (err error) {
	if panicked := author.Try(func() { err = call() }); panicked != nil {
		return failed(panicked)
	}
	return author.Sound(err)
}

// askedOnce calls a function of the author's, of that name, that is called at registration. Whatever it does instead of
// returning in time is an error, and the error that it returns is safe to handle. What call writes must not be read after
// an error.
func askedOnce(name string, call func() error) error {
	var err error
	if failure := author.Apart(author.Patience, func() { err = call() }); failure != nil {
		return fmt.Errorf("%s: %w", name, failed(failure))
	}
	return author.Sound(err)
}

// guardedSink is a sink of the author's, or one that calls the methods of values that the author logs: what panics
// there ends nobody.
type guardedSink struct{ logr.LogSink }

// guardedLogger returns a logger that survives its sink, and what is logged.
func guardedLogger(logger logr.Logger) logr.Logger {
	sink := logger.GetSink()
	if _, is := sink.(guardedSink); is || sink == nil {
		return logger
	}
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(3) // the methods here, what they call, and what that calls
	}
	return logger.WithSink(guardedSink{sink})
}

// Init does nothing: the author's sink is in use already.
func (s guardedSink) Init(logr.RuntimeInfo) {}

// Enabled is the sink's, false if that panics.
func (s guardedSink) Enabled(level int) (enabled bool) {
	author.Try(func() { enabled = s.LogSink.Enabled(level) })
	return enabled
}

// Info logs; if that panics, without what the values are.
func (s guardedSink) Info(level int, msg string, keysAndValues ...any) {
	if author.Try(func() { s.LogSink.Info(level, msg, keysAndValues...) }) != nil {
		author.Try(func() { s.LogSink.Info(level, msg, asText(keysAndValues)...) })
	}
}

// Error logs; if that panics, without what the error and the values are.
func (s guardedSink) Error(err error, msg string, keysAndValues ...any) {
	if author.Try(func() { s.LogSink.Error(err, msg, keysAndValues...) }) != nil {
		author.Try(func() { s.LogSink.Error(errors.New(author.Text(err)), msg, asText(keysAndValues)...) })
	}
}

// WithValues returns the sink with values; if that panics, with what they are as text.
func (s guardedSink) WithValues(keysAndValues ...any) logr.LogSink {
	with := s.LogSink
	if author.Try(func() { with = s.LogSink.WithValues(keysAndValues...) }) != nil {
		author.Try(func() { with = s.LogSink.WithValues(asText(keysAndValues)...) })
	}
	return guardedSink{with}
}

// WithName returns the sink with a name.
func (s guardedSink) WithName(name string) logr.LogSink {
	with := s.LogSink
	author.Try(func() { with = s.LogSink.WithName(name) })
	return guardedSink{with}
}

// WithCallDepth skips more frames.
func (s guardedSink) WithCallDepth(depth int) logr.LogSink {
	deep, ok := s.LogSink.(logr.CallDepthLogSink)
	if !ok {
		return s
	}
	with := s.LogSink
	author.Try(func() { with = deep.WithCallDepth(depth) })
	return guardedSink{with}
}

// asText are the values as text that nothing can go wrong with.
func asText(values []any) []any {
	texts := make([]any, len(values))
	for i, value := range values {
		texts[i] = author.Sprint(value)
	}
	return texts
}
