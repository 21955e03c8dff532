package framework

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
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
const MaxVerbosity = safely.MaxVerbosity

// loggerOr returns the author's logger, or the default: slog's text lines on standard error.
func loggerOr(given Logger) logr.Logger {
	if object.IsNil(given) {
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	}
	return given.V(0)
}
