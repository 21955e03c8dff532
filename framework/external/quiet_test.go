package external_test

import "github.com/go-logr/logr"

// quiet is for operators of which nobody reads the log.
var quiet = logr.Discard()
