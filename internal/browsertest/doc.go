// Package browsertest looks at the pages of package why in a headless Chromium, as their readers
// do: with the real operator of samples/webpage on an API server in memory, and with texts of every
// length.
//
//	go test .                               # tools/browser installs the browser
//	go test -screenshots ../../docs/images  # takes the pictures of docs, too: make screenshots
//
// It is a module of its own, so that no user's module graph has the protocol of browsers.
//
// # Concurrency
//
// Tests share one browser. Each has a window of its own.
//
// # What it does not do
//
// There is no virtual time here: a browser has its own clock. Tests wait for what they expect, and
// never for a time. Without a browser they are skipped, and say why there is none.
package browsertest
