package safely

import (
	"errors"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/internal/author"
)

// guardedSink wraps a log sink and recovers its panics. The sink may be the author's, or may call
// methods of values that the author logs.
type guardedSink struct{ logr.LogSink }

// Logger returns a logger that recovers the panics of its sink and of the logged values.
func Logger(logger logr.Logger) logr.Logger {
	sink := logger.GetSink()
	if _, is := sink.(guardedSink); is || sink == nil {
		return logger
	}
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(3) // skip the methods here and two more frames
	}
	return logger.WithSink(guardedSink{sink})
}

// Init does nothing: the author's sink is already in use.
func (s guardedSink) Init(logr.RuntimeInfo) {}

// Enabled returns the sink's result, or false if it panics.
func (s guardedSink) Enabled(level int) (enabled bool) {
	author.Try(func() { enabled = s.LogSink.Enabled(level) })
	return enabled
}

// Info logs; if that panics, it logs the values as text.
func (s guardedSink) Info(level int, msg string, keysAndValues ...any) {
	if author.Try(func() { s.LogSink.Info(level, msg, keysAndValues...) }) != nil {
		author.Try(func() { s.LogSink.Info(level, msg, texts(keysAndValues)...) })
	}
}

// Error logs; if that panics, it logs the error and the values as text.
func (s guardedSink) Error(err error, msg string, keysAndValues ...any) {
	if author.Try(func() { s.LogSink.Error(err, msg, keysAndValues...) }) != nil {
		author.Try(func() { s.LogSink.Error(errors.New(author.Text(err)), msg, texts(keysAndValues)...) })
	}
}

// WithValues returns the sink with values; if that panics, with the values as text.
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

// WithCallDepth skips more stack frames.
func (s guardedSink) WithCallDepth(depth int) logr.LogSink {
	deep, ok := s.LogSink.(logr.CallDepthLogSink)
	if !ok {
		return s
	}
	with := s.LogSink
	author.Try(func() { with = deep.WithCallDepth(depth) })
	return guardedSink{with}
}

// texts returns the values as text. It never panics.
func texts(values []any) []any {
	texts := make([]any, len(values))
	for i, value := range values {
		texts[i] = author.Sprint(value)
	}
	return texts
}
