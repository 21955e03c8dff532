// Package externaltest holds no code but tests: an operator that manages what lies outside of the
// cluster, on a real API server. operator_test.go is to be read, and copied, by authors of such
// operators; service_test.go is the system outside, and the rest shows that the operator does what
// it should, whatever befalls that system.
//
// # What it does not do
//
// It does not test the event sources exactly: package eventsource does so, in virtual time.
package externaltest
