// Package safely calls the author's code: functions that may panic, end their goroutine, not
// return, or return errors whose methods panic. It is a thin layer over internal/author, which all
// packages of this module may use, and adds this library's errors and logs.
package safely
