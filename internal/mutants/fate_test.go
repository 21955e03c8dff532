package mutants

var ofFates = []mutant{
	{
		name:   "an apply to a sub-resource that was refused for its version is forgotten if the read fails",
		breaks: "G01: no run reads older than what the runs before it wrote",
		file:   "framework/apply.go",
		old:    "			w.leave(q)\n			return nil, unread(refusal, err)\n",
		new:    "			return nil, unread(refusal, err)\n",
		kills:  far("TestG01ARunDoesNotBeginWithoutTheReadThatARefusedApplyLacked/webpages"),
	},
	{
		name:   "an apply that was refused for its version is forgotten if its repetition fails",
		breaks: "G01: no run reads older than what the runs before it wrote",
		file:   "framework/apply.go",
		old:    "		w.leave(q) // the caches are behind",
		new:    "		// the caches are behind",
		kills:  far("TestG01ARunDoesNotBeginWithoutTheReadThatARefusedApplyLacked/configmaps"),
	},
}
