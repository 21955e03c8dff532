package framework

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// Logger is what [OperatorOptions.Logger] takes: a [logr.Logger], and nothing else is meant. It is an
// interface because a zero logr.Logger cannot be told from logr.Discard(): nil is the default, and
// logr.Discard() switches the log off.
type Logger interface {
	// V returns the logger for a higher verbosity; V(0) returns the logger itself.
	V(level int) logr.Logger
}

// MaxVerbosity is the highest verbosity that an operator's logger takes, whatever its own level is.
// client-go logs the headers of requests at 7, and their bodies from 8 on: those of Secrets too.
const MaxVerbosity = maxVerbosity

// maxVerbosity is framework.MaxVerbosity.
const maxVerbosity = 6

// loggerOr returns the author's logger, or the default: slog's text lines on standard error.
func loggerOr(given Logger) logr.Logger {
	if object.IsNil(given) {
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	}
	return given.V(0)
}

// limited is a sink that drops all lines above a verbosity. Once the operator stops, the end of a
// context is not logged as an error.
type limited struct {
	logr.LogSink
	max      int
	stopping *stopSign
	// ofClient says that only client libraries log here: no error of theirs counts during a stop.
	ofClient bool
}

// stopSign tells loggers that a stop has begun.
type stopSign struct{ ended atomic.Pointer[func() error] }

// watch has it up once the context ends.
func (s *stopSign) watch(ctx context.Context) {
	ended := ctx.Err
	s.ended.Store(&ended)
}

func (s *stopSign) isUp() bool {
	if s == nil {
		return false
	}
	ended := s.ended.Load()
	return ended != nil && (*ended)() != nil
}

var (
	_ logr.CallDepthLogSink       = limited{}
	_ logr.CallStackHelperLogSink = limited{}
)

// limitedLogger returns the logger without the lines above maxVerbosity. It is free for one that has
// none already.
func limitedLogger(logger logr.Logger, stopping *stopSign) logr.Logger {
	sink := logger.GetSink()
	if sink == nil {
		return logger
	}
	if _, is := sink.(limited); is {
		return logger
	}
	if deeper, can := sink.(logr.CallDepthLogSink); can {
		sink = deeper.WithCallDepth(1) // of the methods below
	}
	return logger.WithSink(limited{LogSink: sink, max: logger.GetV() + maxVerbosity, stopping: stopping})
}

// clientLogger returns the logger for the background work of client libraries.
func clientLogger(logger logr.Logger) logr.Logger {
	if sink, is := logger.GetSink().(limited); is {
		sink.ofClient = true
		return logger.WithSink(sink)
	}
	return logger
}

// Enabled reports whether the verbosity is logged.
func (s limited) Enabled(level int) bool { return level <= s.max && s.LogSink.Enabled(level) }

// Info logs up to the limit.
func (s limited) Info(level int, message string, values ...any) {
	if level <= s.max {
		s.LogSink.Info(level, message, values...)
	}
}

// Error logs an error.
func (s limited) Error(err error, message string, values ...any) {
	if s.stopping.isUp() && (s.ofClient || errors.Is(err, context.Canceled)) {
		if level := s.max - maxVerbosity + 1; s.LogSink.Enabled(level) {
			if err != nil {
				values = append(values[:len(values):len(values)], "error", err.Error())
			}
			s.LogSink.Info(level, message, values...)
		}
		return
	}
	s.LogSink.Error(err, message, values...)
}

// WithValues keeps the limit.
func (s limited) WithValues(values ...any) logr.LogSink {
	s.LogSink = s.LogSink.WithValues(values...)
	return s
}

// WithName keeps the limit.
func (s limited) WithName(name string) logr.LogSink {
	s.LogSink = s.LogSink.WithName(name)
	return s
}

// WithCallDepth keeps the limit.
func (s limited) WithCallDepth(depth int) logr.LogSink {
	if deeper, can := s.LogSink.(logr.CallDepthLogSink); can {
		s.LogSink = deeper.WithCallDepth(depth)
	}
	return s
}

// GetCallStackHelper is the author's, if there is one.
func (s limited) GetCallStackHelper() func() {
	if helper, has := s.LogSink.(logr.CallStackHelperLogSink); has {
		return helper.GetCallStackHelper()
	}
	return func() {}
}

// discreet gives a request's context a logger that takes no bodies: the caller's without the lines
// above [maxVerbosity], or the operator's.
func (r *resource) discreet(ctx context.Context) context.Context {
	logger, err := logr.FromContext(ctx)
	if err != nil {
		return logr.NewContext(ctx, r.logger)
	}
	sink := logger.GetSink()
	if _, is := sink.(limited); is || sink == nil {
		return ctx
	}
	return logr.NewContext(ctx, limitedLogger(logger, nil))
}
