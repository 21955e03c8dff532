package framework

// LatePolicy is what becomes of a controller whose secondaries could not be read within [Secondary.SyncTimeout] of its
// start.
type LatePolicy int

const (
	// LateByStartPolicy is the default: what [OperatorOptions.StartPolicy] says.
	LateByStartPolicy LatePolicy = iota
	// LateFails ends [Operator.Run] with an error.
	LateFails
	// LateWaits has the controller wait for them; [Operator.Ready] and the log say so.
	LateWaits
	// LateGoesOn has the controller start without them, as for a cluster that is not always there. Reads of them are
	// errors that wrap [ErrNotSynced] until all are known: half a picture is never shown. Then the primaries whose runs have
	// met that are due, and those that have some. [Operator.Ready] says what is missing.
	LateGoesOn
)
