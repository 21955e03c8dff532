package mutants

// ofIncarnations are mutants of what keeps primaries apart that have one name after the other.
var ofIncarnations = []mutant{
	{
		name:   "a late deletion drops unresolved writes of the next primary",
		breaks: "G13: a create of unknown outcome is not repeated under another name",
		file:   "framework/internal/run/states.go",
		old:    "		if any && next != \"\" {\n",
		new:    "		if any && next == \"\" {\n",
		kills:  inVirtualTime("TestG13ALateDeletion"),
	},
	{
		name:   "a primary that becomes undecodable in its run counts as gone",
		breaks: "G16: what is kept goes with the primary, not before",
		file:   "framework/internal/run/deleted.go",
		old:    "undecodable := primaries.Undecodable(key); undecodable != nil",
		new:    "undecodable := primaries.Undecodable(key); undecodable != nil && key.Name == \"\"",
		kills:  inVirtualTime("TestTheWorkflowResultStays"),
	},
	{
		name:   "a final run that ends its goroutine releases nobody",
		breaks: "G07: no primary is stuck",
		file:   "framework/internal/run/run.go",
		old:    "		goThrough = apart\n",
		new:    "		_ = apart\n",
		kills:  inVirtualTime("TestG07AFinalRunThatEnds"),
	},
	{
		name:   "an undecodable primary is not forgotten with its namespace",
		breaks: "G16: nothing is kept of what is no longer watched",
		file:   "framework/internal/run/namespaces.go",
		old:    "	undecodable := n.Store.AllUndecodable()\n",
		new:    "	undecodable := n.Store.AllUndecodable()\n	clear(undecodable)\n",
		kills:  inVirtualTime("TestG16AnUndecodablePrimary"),
	},
	{
		name:   "unresolved writes wait for a final run that was dropped",
		breaks: "G16: nothing is kept of what is gone",
		file:   "framework/internal/run/run.go",
		old:    " && !e.finalRuns.WasRemembered(left.UID) {",
		new:    " {",
		kills:  inVirtualTime("TestG16UnresolvedWritesOfADropped"),
	},
	{
		name:   "a request of an ended run counts as in flight",
		breaks: "G16: nothing is kept of what is gone",
		file:   "framework/internal/write/verbs.go",
		old:    "	done := func() {}\n",
		new:    "	done := func() {}\n	if w.Loops != nil {\n		done = w.Loops.Does(key)\n		defer w.Loops.Does(key)\n	}\n",
		kills:  inVirtualTime("TestG16ARequestAfterTheRun"),
	},
}
