package framework

// SyncPolicy is what becomes of a controller whose secondaries could not be read within [Secondary.SyncTimeout] of its
// start.
type SyncPolicy int

const (
	// SyncByStartPolicy is the default: what [OperatorOptions.StartPolicy] says.
	SyncByStartPolicy SyncPolicy = iota
	// SyncFails ends [Operator.Run] with an error.
	SyncFails
	// SyncWaits has the controller wait for them; [Operator.Ready] and the log say so.
	SyncWaits
	// SyncOptional has the controller start without them, as for a cluster that is not always there. Reads of them are
	// errors that wrap [ErrNotSynced] until all are known: half a picture is never shown. Then the primaries whose runs have
	// met that are due, and those that have some. [Operator.Ready] says what is missing.
	SyncOptional
)
