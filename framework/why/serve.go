package why

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// overview serves the page of the operator.
func (p *Pages) overview(w http.ResponseWriter, r *http.Request) {
	op := p.operator.Load()
	if op == nil {
		http.Error(w, "why: Pages.Of was not called yet", http.StatusServiceUnavailable)
		return
	}
	v := overviewOf(*op, time.Now())
	v.Records, v.Bytes = p.store.kept()
	serve(w, r, "overview", "operator", v)
}

// controller serves the page of a controller.
func (p *Pages) controller(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("controller")
	entries := p.store.all(name)
	if len(entries) == 0 && !p.knows(name) {
		http.Error(w, fmt.Sprintf("there is no controller %q", name), http.StatusNotFound)
		return
	}
	serve(w, r, "controller", name, ofController(name, entries))
}

// knows reports whether the operator has a controller of that name.
func (p *Pages) knows(name string) bool {
	op := p.operator.Load()
	if op == nil {
		return false
	}
	for _, c := range (*op).Occupancy().Controllers {
		if c.Name == name {
			return true
		}
	}
	return false
}

// primary serves the page of a primary.
func (p *Pages) primary(w http.ResponseWriter, r *http.Request) {
	v := OfPrimary{Controller: r.PathValue("controller"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), Runs: []Run{}}
	if v.Namespace == clusterScoped {
		v.Namespace = ""
	}
	key := types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	for _, record := range p.store.of(id{v.Controller, key}) {
		v.Runs = append(v.Runs, runOf(v.Controller, key, record))
	}
	if len(v.Runs) == 0 && !p.knows(v.Controller) {
		http.Error(w, fmt.Sprintf("there is no controller %q", v.Controller), http.StatusNotFound)
		return
	}
	serve(w, r, "primary", key.String(), v)
}

// serve answers with a page, or with its JSON twin.
func serve(w http.ResponseWriter, r *http.Request, page, title string, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Vary", "Accept")
	if r.FormValue("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(v) // the client has gone
		return
	}
	// Nothing is loaded from elsewhere, and nothing runs but the script of the page.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"+scriptHash+"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = templates.ExecuteTemplate(w, page, view{Title: title, Root: Root, Script: script, Page: v}) // the client has gone
}

const (
	// often is the shortest time between two events for a page.
	often = time.Second
	// heartbeat is the longest, so that a connection that is gone is noticed.
	heartbeat = 15 * time.Second
)

// events tells pages that there are new runs, by server-sent events.
func (p *Pages) events(w http.ResponseWriter, r *http.Request) {
	flusher := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	seen, _ := p.store.after(0)
	if flusher.Flush() != nil {
		return
	}
	for {
		_, more := p.store.after(seen)
		timer := time.NewTimer(heartbeat)
		text := ": nothing new\n\n"
		select {
		case <-r.Context().Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-more:
			timer.Stop()
			seen, _ = p.store.after(seen)
			text = fmt.Sprintf("data: %d\n\n", seen)
		}
		if _, err := w.Write([]byte(text)); err != nil || flusher.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(often):
		}
	}
}
