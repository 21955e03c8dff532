// Package client is a client for one resource of one API server: a [Client] sends its requests, lists and watches it, and decodes
// what comes back, in one Go form. It keeps no objects, but for answers whose event in the watch is still to come ([DecodeCache]),
// which then need not be decoded a second time.
//
// What the Go type cannot hold is no error of a list or a watch: it is delivered as [trc.Undecoded]. Errors and logs quote nothing of
// Secrets.
package client
