// Package client is a client for one resource of one API server. A [Client] sends requests, lists
// and watches the resource, and decodes the answers in one Go form. It keeps no objects, except
// answers to writes whose watch event is still to come ([DecodeCache]): the event then need not be
// decoded again.
//
// If a Go type cannot hold an object, lists and watches do not fail: they deliver it as
// [trc.Undecodable]. Errors and logs never quote the contents of Secrets.
package client
