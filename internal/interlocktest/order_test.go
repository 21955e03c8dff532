package interlocktest

import "sort"

// order is what is known of the order of changes in different etcds: whatever one of them had
// committed before it was asked, comes before what another commits after it was asked later. That
// leaves some in doubt.
type order struct{ cuts []cut }

// cut is the revisions of both as they were, those of databases first.
type cut struct{ databases, apps int64 }

// appAfter tells whether a change of apps certainly came after one of databases.
func (o *order) appAfter(app, database int64) bool {
	i := sort.Search(len(o.cuts), func(i int) bool { return o.cuts[i].databases >= database })
	return i < len(o.cuts) && o.cuts[i].apps < app
}

// databaseAfter tells whether a change of databases certainly came after one of apps. A cut asks
// for the databases first, so that it is the next one that tells.
func (o *order) databaseAfter(database, app int64) bool {
	i := sort.Search(len(o.cuts), func(i int) bool { return o.cuts[i].apps >= app })
	return i+1 < len(o.cuts) && o.cuts[i+1].databases < database
}
