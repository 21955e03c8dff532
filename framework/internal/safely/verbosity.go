package safely

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// MaxVerbosity is the highest verbosity of log lines; see framework.MaxVerbosity.
const MaxVerbosity = 6

// Limited is a sink that drops all lines above a verbosity. Once the operator stops, it does not
// log the end of a context as an error.
type Limited struct {
	logr.LogSink
	max      int
	stopping *StopSign
	// ofClient says that only client libraries use the sink: none of their errors counts during a
	// stop.
	ofClient bool
}

var (
	_ logr.CallDepthLogSink       = Limited{}
	_ logr.CallStackHelperLogSink = Limited{}
)

// StopSign signals loggers that the operator is stopping.
type StopSign struct{ ended atomic.Pointer[func() error] }

// Watch sets the sign when the context ends.
func (s *StopSign) Watch(ctx context.Context) {
	ended := ctx.Err
	s.ended.Store(&ended)
}

// IsUp reports whether the context has ended. A nil sign is never up.
func (s *StopSign) IsUp() bool {
	if s == nil {
		return false
	}
	ended := s.ended.Load()
	return ended != nil && (*ended)() != nil
}

// Quiet returns the logger without the lines above [MaxVerbosity]. It costs nothing if the logger
// is limited already.
func Quiet(logger logr.Logger, stopping *StopSign) logr.Logger {
	sink := logger.GetSink()
	if sink == nil {
		return logger
	}
	if _, is := sink.(Limited); is {
		return logger
	}
	if deeper, can := sink.(logr.CallDepthLogSink); can {
		sink = deeper.WithCallDepth(1) // skip the methods below
	}
	return logger.WithSink(Limited{LogSink: sink, max: logger.GetV() + MaxVerbosity, stopping: stopping})
}

// OfClient returns the logger for the background work of client libraries.
func OfClient(logger logr.Logger) logr.Logger {
	if sink, is := logger.GetSink().(Limited); is {
		sink.ofClient = true
		return logger.WithSink(sink)
	}
	return logger
}

// Enabled reports whether lines of that verbosity are logged.
func (s Limited) Enabled(level int) bool { return level <= s.max && s.LogSink.Enabled(level) }

// Info logs lines up to the limit.
func (s Limited) Info(level int, message string, values ...any) {
	if level <= s.max {
		s.LogSink.Info(level, message, values...)
	}
}

// Error logs an error. During a stop, errors that follow from it are logged with a higher verbosity
// instead.
func (s Limited) Error(err error, message string, values ...any) {
	if s.stopping.IsUp() && (s.ofClient || errors.Is(err, context.Canceled)) {
		if level := s.max - MaxVerbosity + 1; s.LogSink.Enabled(level) {
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
func (s Limited) WithValues(values ...any) logr.LogSink {
	s.LogSink = s.LogSink.WithValues(values...)
	return s
}

// WithName keeps the limit.
func (s Limited) WithName(name string) logr.LogSink {
	s.LogSink = s.LogSink.WithName(name)
	return s
}

// WithCallDepth keeps the limit.
func (s Limited) WithCallDepth(depth int) logr.LogSink {
	if deeper, can := s.LogSink.(logr.CallDepthLogSink); can {
		s.LogSink = deeper.WithCallDepth(depth)
	}
	return s
}

// GetCallStackHelper returns the helper of the wrapped sink, if it has one.
func (s Limited) GetCallStackHelper() func() {
	if helper, has := s.LogSink.(logr.CallStackHelperLogSink); has {
		return helper.GetCallStackHelper()
	}
	return func() {}
}
