// Package safely calls the author's code: functions that may panic, end their goroutine, return errors whose methods panic, or not
// return. It is a thin layer over internal/author, which all packages of this module may use, with this library's errors and logs.
package safely
