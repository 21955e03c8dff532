package mutants

// twoStores are the specs of the interlock on real servers.
var twoStores = []suite{{folder: "internal/interlocktest", run: "TestInterlock", focus: "G10 no database vanishes"}}

// wholePlane are the specs of what stands behind a gate, on a whole control plane.
var wholePlane = []suite{{folder: "internal/behindtest", run: "TestBehind", focus: "G10 keeps the database"}}

var ofRealInterlock = []mutant{
	{
		name:   "the guard trusts its cache that nobody uses a provider",
		breaks: "G10: no provider disappears while a dependent that may be using it exists",
		file:   "framework/interlock/holders.go",
		old:    "	return side.live(ctx)\n",
		new:    "	return \"\", nil\n",
		kills:  twoStores,
	},
	{
		name:   "the gate does not ask whether a provider is in deletion",
		breaks: "G10: no dependent is implemented on a provider in deletion",
		file:   "framework/interlock/gate.go",
		old:    "	case live.GetDeletionTimestamp() != nil:\n		return \"\", InDeletion, nil\n",
		new:    "",
		kills:  twoStores,
	},
	{
		name:   "the gate trusts its cache that a provider is there",
		breaks: "G10: no dependent is implemented on a provider that is gone or in deletion",
		file:   "framework/interlock/gate.go",
		old:    "	live, err := s.Providers.Live(ctx, s.c, key.Namespace, key.Name)\n",
		new:    "	live, err := s.Providers.GetNamed(s.c, key.Namespace, key.Name)\n	if err == nil && isNil(live) {\n		return \"\", Absent, nil\n	}\n",
		kills:  twoStores,
	},
	{
		name:   "the gate grants providers that nothing keeps",
		breaks: "G10: no provider disappears while a dependent that may be using it exists",
		file:   "framework/interlock/gate.go",
		old:    "	case !s.protects(live):\n		return \"\", Unprotected, nil\n",
		new:    "",
		kills:  twoStores,
	},
	{
		name:   "the gate looks at a provider though the claim was not stored",
		breaks: "G10: a dependent is granted a provider only after its claim is stored",
		file:   "framework/interlock/gate.go",
		old:    "	stored, err := s.applyClaims(ctx, s.c, wanted, false)\n	if err != nil {\n		return nil, err\n	}\n	return s.Relation.Claims(stored), nil\n",
		new:    "	return wanted, nil\n",
		kills:  twoStores,
	},
	{
		name:   "reads show what had a provider's name before, after a live read of it",
		breaks: "G02: no read is older than one before",
		file:   "framework/internal/write/readback.go",
		old:    "	found, _, err := w.read(ctx, r, key)\n",
		new:    "	found, err := r.Get(ctx, key)\n",
		kills:  append(far("TestG02NoReadIsOlderThanOneOfTheServer"), twoStores...),
	},
	{
		name:   "real Pods do not keep their workload from being gone",
		breaks: "G10: no provider disappears while Pods of what stood behind the gate are there",
		file:   "framework/dependent/objects.go",
		old:    "	if v, err := o.pods.gone(ctx, c, namespace); err != nil || !v.Met || then == nil {\n",
		new:    "	if v := workflow.Met(); then == nil {\n",
		kills:  wholePlane,
	},
	{
		name:   "real Pods of a former version do not count",
		breaks: "G10: no provider disappears while Pods that use it are there",
		file:   "framework/dependent/pods.go",
		old:    "		former := o.GetAnnotations()[PodsVersionKey] != version\n",
		new:    "		former := o.GetAnnotations()[PodsVersionKey] == version+\".\"\n",
		kills:  wholePlane,
	},
	{
		name:   "a real workload that lost its owner counts as gone",
		breaks: "G10: all drains, whoever has removed an owner",
		file:   "framework/dependent/kubernetes.go",
		old:    "		o, err = k.untied(ctx, c, key)\n",
		new:    "			err = nil\n",
		kills:  wholePlane,
	},
}
