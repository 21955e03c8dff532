package framework

// WriteSettings are what is effective of the options of a write, for code that passes options of others on.
type WriteSettings struct {
	// FieldManager is what owns the fields that are written: that of [FieldManager], or the controller's.
	FieldManager string
	// DryRun says that nothing is stored.
	DryRun bool
}

// SettingsOf returns the settings of a write through c with these options.
func SettingsOf(c Writes, options ...WriteOption) WriteSettings {
	o := optionsOf(c.writer(), options)
	return WriteSettings{FieldManager: o.FieldManager, DryRun: o.DryRun}
}

// Wrote reports whether the server is known to have stored, since this process began or came into office, an intent of the field
// manager for this very object: it has the same UID, and a cache has shown it ever since. false says nothing: what an
// earlier process wrote is not known. It takes no request.
func Wrote(c Writes, o Object, fieldManager string) bool {
	return c.writer().Knows(o, fieldManager)
}
