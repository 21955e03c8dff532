package debughttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

const (
	defaultProfileTime = 30 * time.Second
	longestProfileTime = 5 * time.Minute
)

// profile serves the profiles of the runtime at the paths that "go tool pprof" knows. It does not
// use net/http/pprof, which would add them to the default mux of every operator.
func profile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch name := r.PathValue("name"); name {
	case "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "profile?seconds=30\ntrace?seconds=30")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%s (%d)\n", p.Name(), p.Count())
		}
	case "profile":
		during(w, r, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		during(w, r, trace.Start, trace.Stop)
	default:
		p := pprof.Lookup(name)
		if p == nil {
			http.Error(w, fmt.Sprintf("there is no profile %q", name), http.StatusNotFound)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug"))
		if w.Header().Set("Content-Type", "application/octet-stream"); debug > 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_ = p.WriteTo(w, debug) // the client has gone
	}
}

// during records from a start to a stop, for as many seconds as the request says.
func during(w http.ResponseWriter, r *http.Request, start func(io.Writer) error, stop func()) {
	d, err := secondsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil { // one at a time
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func secondsOf(r *http.Request) (time.Duration, error) {
	text := r.FormValue("seconds")
	if text == "" {
		return defaultProfileTime, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds <= longestProfileTime.Seconds()) { // NaN is neither
		return 0, fmt.Errorf("seconds=%q: must be a number above 0, and at most %v", text, longestProfileTime.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
