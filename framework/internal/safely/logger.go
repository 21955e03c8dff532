package safely

import (
	"errors"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/internal/author"
)

// guardedSink is a sink of the author's, or one that calls the methods of values that the author logs: what panics
// there ends nobody.
type guardedSink struct{ logr.LogSink }

// Logger returns a logger that survives its sink, and what is logged.
func Logger(logger logr.Logger) logr.Logger {
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
		author.Try(func() { s.LogSink.Info(level, msg, texts(keysAndValues)...) })
	}
}

// Error logs; if that panics, without what the error and the values are.
func (s guardedSink) Error(err error, msg string, keysAndValues ...any) {
	if author.Try(func() { s.LogSink.Error(err, msg, keysAndValues...) }) != nil {
		author.Try(func() { s.LogSink.Error(errors.New(author.Text(err)), msg, texts(keysAndValues)...) })
	}
}

// WithValues returns the sink with values; if that panics, with what they are as text.
func (s guardedSink) WithValues(keysAndValues ...any) logr.LogSink {
	with := s.LogSink
	if author.Try(func() { with = s.LogSink.WithValues(keysAndValues...) }) != nil {
		author.Try(func() { with = s.LogSink.WithValues(texts(keysAndValues)...) })
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

// texts are the values as text that nothing can go wrong with.
func texts(values []any) []any {
	texts := make([]any, len(values))
	for i, value := range values {
		texts[i] = author.Sprint(value)
	}
	return texts
}
