package external_test

import "github.com/go-logr/logr"

// quiet is for operators whose log is not needed.
var quiet = logr.Discard()
