package mutants

// explored are scenarios in which the core of the interlock is driven through every order of its
// steps.
func explored(scenario string) []suite {
	return interlocked("TestG10InEveryOrder/scenarios/" + scenario)
}

var ofInterlock = []mutant{
	{
		name:   "the guard's cache is believed that nobody uses a provider",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/holders.go",
		old:    "	if user, err = side.cached(); user != \"\" || err != nil {\n		return user, err\n	}\n	return side.live(ctx)\n",
		new:    "	return side.cached()\n",
		kills:  explored("a_provider_and_a_dependent"),
	},
	{
		name:   "a dependent enters before its claim is stored",
		breaks: "G10: no dependent is implemented on a provider in deletion",
		file:   "framework/interlock/holders.go",
		old:    "	carried, err := side.claim(ctx, missing)\n",
		new:    "	for _, key := range missing {\n		if uid, _, err := side.provider(ctx, key); err == nil && uid != \"\" {\n			h.enter(me, key, uid)\n		}\n	}\n	carried, err := side.claim(ctx, missing)\n",
		kills:  explored("a_provider_and_a_dependent"),
	},
	{
		name:   "a dependent joins another before its claim is stored",
		breaks: "G10: no dependent is implemented on a provider in deletion",
		file:   "framework/interlock/holders.go",
		old:    "	carried, err := side.claim(ctx, missing)\n",
		new:    "	for _, key := range missing {\n		h.join(me, key, side)\n	}\n	carried, err := side.claim(ctx, missing)\n",
		kills:  explored("two_dependents_share_a_provider$"),
	},
	{
		name:   "a dependent is granted what it turns out not to claim",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/holders.go",
		old:    "		if !slices.Contains(carried, key) {\n",
		new:    "		if !slices.Contains(carried, key) && key.Name == \"\" {\n",
		kills:  explored("who_follows_a_gate"),
	},
	{
		name:   "who leaves a provider holds it",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/holders.go",
		old:    "		h.leaveLocked(holding{me, key})\n",
		new:    "		_ = key\n",
		kills:  explored("a_dependent_refers_to_one"),
	},
	{
		name:   "who leaves all providers holds them",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/holders.go",
		old:    "		h.leaveLocked(each)\n",
		new:    "		_ = each\n",
		kills:  explored("a_dependent_refers_to_a_provider"),
	},
	{
		name:   "claims are written for whatever version of the dependent there is",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/gate.go",
		old:    "	intent.SetResourceVersion(g.decidedOn(c))\n",
		new:    "	_ = g.decidedOn(c)\n",
		kills:  interlocked("TestAReleaseThatOutlasts"),
	},
	{
		name:   "the claim of a dependent in deletion is relied upon",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/gate.go",
		old:    "	if live.GetDeletionTimestamp() != nil {\n		return nil\n	}\n",
		new:    "",
		kills:  interlocked("TestAClaimIsReliedUpon"),
	},
	{
		name:   "a claim of what the dependent does not refer to is relied upon",
		breaks: "G10: no provider disappears while a dependent may be using it",
		file:   "framework/interlock/gate.go",
		old:    "func(key types.NamespacedName) bool { return !slices.Contains(refers, key) })\n}\n",
		new:    "func(key types.NamespacedName) bool { return !slices.Contains(refers, key) && key.Name == \"\" })\n}\n",
		kills:  interlocked("TestAClaimIsReliedUpon"),
	},
}
