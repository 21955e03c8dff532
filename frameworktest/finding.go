package frameworktest

// Finding is one life that failed.
type Finding struct {
	// Point is the name by which it is repeated, as "crash-before@3", "seed-17", or "no-fault" if the
	// undisturbed life failed.
	Point string
	// Write is the write at which it broke, if the point is about one.
	Write Write
	// Failures are what is wrong.
	Failures []string
}

// Findings returns the lives that failed, the shortest first.
func (r *Report) Findings() []Finding {
	var all []Finding
	for _, o := range r.failed {
		f := Finding{Point: o.name, Failures: o.failures}
		if s, err := parseSpot(o.name); err == nil && s.write > 0 && s.write <= len(o.writes) {
			f.Write = o.writes[s.write-1]
		}
		all = append(all, f)
	}
	return all
}
