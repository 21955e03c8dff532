package framework

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
)

// Logger is the type of [OperatorOptions.Logger]. Use a [logr.Logger]; no other implementation is
// intended. It is an interface because a zero logr.Logger is equal to logr.Discard(): nil is the
// default, and logr.Discard() switches the log off.
type Logger interface {
	// V returns the logger for a higher verbosity. V(0) returns the logger itself.
	V(level int) logr.Logger
}

// MaxVerbosity is the highest verbosity that an operator's logger accepts, whatever its own level
// is. client-go logs the headers of requests at 7, and their bodies from 8 on, including those of
// Secrets.
const MaxVerbosity = safely.MaxVerbosity

// loggerOr returns the author's logger, or the default: slog's text lines on standard error.
func loggerOr(given Logger) logr.Logger {
	if object.IsNil(given) {
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	}
	return given.V(0)
}
