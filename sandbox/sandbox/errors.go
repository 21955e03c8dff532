package sandbox

import "errors"

// What callers may want to tell apart; every error wraps the one that applies.
var (
	// ErrInvalid: an option has a value that it cannot have.
	ErrInvalid = errors.New("invalid option")
	// ErrPortTaken: Options.Port is in use.
	ErrPortTaken = errors.New("port is taken")
	// ErrDataInUse: another control plane runs on Options.Data.
	ErrDataInUse = errors.New("data folder is in use")
	// ErrDataForeign: Options.Data is not empty and not a sandbox's, or was written
	// by another version of Kubernetes.
	ErrDataForeign = errors.New("data folder does not fit")
	// ErrDiskFull: there is too little space to boot.
	ErrDiskFull = errors.New("not enough disk space")
	// ErrComponentDied: a component ended that nobody had asked to.
	ErrComponentDied = errors.New("component died")
	// ErrStopped: the control plane has been stopped.
	ErrStopped = errors.New("control plane is stopped")
)
