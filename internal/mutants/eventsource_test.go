package mutants

var ofEventSource = []mutant{
	{
		name:   "only the primaries of the new state are due",
		breaks: "C53: a reference that was dropped makes its primary due, too",
		file:   "eventsource/informer.go",
		old:    "	offer(t.Old)\n	cause.Entered",
		new:    "	cause.Entered",
		kills:  []suite{{folder: "eventsource"}},
	},
	{
		name:   "an adopted object is not told from one that was the primary's before",
		breaks: "O17: an adopted object makes its primary due once",
		file:   "eventsource/informer.go",
		old:    "	cause.Entered = t.Old != nil\n",
		new:    "",
		kills:  []suite{{folder: "eventsource"}},
	},
	{
		name:   "every change seems to be an adoption",
		breaks: "G05: own writes cause no further run",
		file:   "eventsource/informer.go",
		old:    "	offer(t.Old)\n	cause.Entered = t.Old != nil\n",
		new:    "	cause.Entered = t.Old != nil\n	offer(t.Old)\n",
		kills:  []suite{{folder: "eventsource"}},
	},
	{
		name:   "a filter sees only what is new",
		breaks: "O18: a filter sees what readers saw before, and after",
		file:   "eventsource/informer.go",
		old:    "!i.options.Filter(t.Old, t.New)",
		new:    "!i.options.Filter(nil, t.New)",
		kills:  []suite{{folder: "eventsource"}},
	},
}
