package framework

// SyncPolicy is what happens to a controller if its secondaries cannot be read within
// [Secondary.SyncTimeout] of its start.
type SyncPolicy int

const (
	// SyncByStartPolicy is the default: [OperatorOptions.StartPolicy] decides.
	SyncByStartPolicy SyncPolicy = iota
	// SyncFails ends [Operator.Run] with an error.
	SyncFails
	// SyncWaits makes the controller wait for them. [Operator.Ready] and the log report it.
	SyncWaits
	// SyncOptional starts the controller without them, for example for a cluster that is not always
	// available. Until all of them are known, reads of them return errors that wrap [ErrNotSynced];
	// they never return a part. After that, the primaries whose runs met the error become due, and so
	// do the primaries that have such secondaries. [Operator.Ready] reports what is missing.
	SyncOptional
)
