package mutants

// dynamic are the tests of what comes and goes that match, which take no API server.
func dynamic(run string) []suite { return []suite{{folder: "framework", run: run}} }

const histories = "TestG04G16WhatComesAndGoes"

var ofDynamic = []mutant{
	{
		name:   "what was added is read before it is filled",
		breaks: "G01: nothing is taken for missing that is there",
		file:   "framework/attending.go",
		old:    "	if !isFilled(ctx, o.store) {\n		return\n	}\n	// Before",
		new:    "	s.mu.Lock()\n	a.opened = o\n	s.mu.Unlock()\n	if !isFilled(ctx, o.store) {\n		return\n	}\n	// Before",
		kills:  dynamic("TestG18WhatIsAdded"),
	},
	{
		name:   "who waited for what was added is not told that it is filled",
		breaks: "G07: no primary is stuck",
		file:   "framework/attending.go",
		old:    "	s.offer(a.name, waiting, \"it is filled\")\n",
		new:    "	_ = waiting\n",
		kills:  dynamic("TestC98SecondariesThatARunAdds"),
	},
	{
		name:   "what was added disappears under the runs that read it",
		breaks: "G01: nothing is taken for missing that is there",
		file:   "framework/attending.go",
		old:    "	case <-a.unread:\n",
		new:    "	default:\n",
		kills:  dynamic("TestC98WhatIsRemovedIsRead"),
	},
	{
		name:   "one primary takes away what another holds",
		breaks: "C98: what is registered stays until nobody wants it",
		file:   "framework/additions.go",
		old:    "	if len(a.holders) > 0 || a.byOperator {\n		return nil\n	}\n	return s.removeLocked(a)",
		new:    "	return s.removeLocked(a)",
		kills:  dynamic("TestC98WhatSeveralPrimaries|" + histories),
	},
	{
		name:   "a primary that is gone holds on",
		breaks: "G16: nothing is left of a primary that is gone",
		file:   "framework/departures.go",
		old:    "			c.scheduler.Forget(key)\n			c.added.letGo(key)\n			c.histories",
		new:    "			c.scheduler.Forget(key)\n			c.histories",
		kills:  dynamic("TestC97Ticks|" + histories),
	},
	{
		name:   "a namespace is entered before what was added is filled there",
		breaks: "G01: a run sees what was written there before",
		file:   "framework/attending.go",
		old:    "		if a.opened != nil {\n			all = append(",
		new:    "		if a.opened != nil && a.source != nil {\n			all = append(",
		kills:  dynamic(histories),
	},
	{
		name:   "a cache ends with the first who reads it no more",
		breaks: "C98: what is shared goes with the last",
		file:   "framework/sharing.go",
		old:    "s.users--; s.users > 0",
		new:    "s.users--; s.users > 1",
		kills:  dynamic("TestC98G16ACacheThatTwo"),
	},
	{
		name:   "the watches of a cache that nobody reads go on",
		breaks: "G16: what is removed leaves nothing behind",
		file:   "framework/sharing.go",
		old:    "	op.removeNamespaces(s, nil, s.watching())\n",
		new:    "",
		kills:  dynamic("TestC98SecondariesThatARunAdds"),
	},
	{
		name:   "the namespaces of one controller are those of all",
		breaks: "C98: others keep theirs",
		file:   "framework/namespaces.go",
		old:    "func(s *sharedStore) bool { return s.key.follows != of }",
		new:    "func(s *sharedStore) bool { return s.key.follows == nil }",
		kills:  dynamic("TestC98ChangeNamespace|" + histories),
	},
	{
		name:   "a source that was removed still offers",
		breaks: "C97: nothing comes after the end",
		file:   "framework/attending.go",
		old:    "	if !waits && !a.isRemoved() {\n",
		new:    "	if !waits {\n",
		kills:  dynamic("TestC62C98"),
	},
	{
		name:   "primaries are not told of before a source that was added starts",
		breaks: "C62: sources that keep something for primaries know of all",
		file:   "framework/attending.go",
		old:    "		defer s.of.watchPrimaries(ctx, a.source)()\n",
		new:    "		defer func() { s.of.watchPrimaries(ctx, a.source)() }()\n",
		kills:  dynamic("TestC62C98"),
	},
	{
		name:   "what is filed while an index takes the place of another is not filed there",
		breaks: "G01: look-ups by an index show everything",
		file:   "trc/index.go",
		old:    "		if s.indexes.Load() == indexes {\n",
		new:    "		if len(s.indexesNow()) == len(covered) {\n",
		kills:  store("TestAnIndexThatTakes"),
	},
	{
		name:   "postings of an index that was removed stay",
		breaks: "G16: what is removed leaves nothing behind",
		file:   "trc/index.go",
		old:    "			p.item.unlink(p.posting)\n",
		new:    "			_ = p\n",
		kills:  store("TestAnIndexThatTakes"),
	},
}
