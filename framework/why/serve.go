package why

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/health"
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
	serve(w, r, "overview", view{Title: "operator", Page: v})
}

// controller serves the page of a controller.
func (p *Pages) controller(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("controller")
	entries, now := p.store.all(name), p.now(name)
	if len(entries) == 0 && now == nil {
		http.Error(w, fmt.Sprintf("there is no controller %q", name), http.StatusNotFound)
		return
	}
	v := ofController(name, entries)
	if now != nil {
		shown := controllerOf(*now)
		v.Now = &shown
		v.Workflow, _ = workflowOf(now.Workflow, nil)
	}
	serve(w, r, "controller", view{Title: name, Page: v})
}

// now returns what the operator says of a controller, nil if it has none of that name.
func (p *Pages) now(name string) *health.Controller {
	op := p.operator.Load()
	if op == nil {
		return nil
	}
	all := (*op).Occupancy().Controllers
	if i := slices.IndexFunc(all, func(c health.Controller) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
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
	now := p.now(v.Controller)
	if len(v.Runs) == 0 && now == nil {
		http.Error(w, fmt.Sprintf("there is no controller %q", v.Controller), http.StatusNotFound)
		return
	}
	if now != nil {
		v.Workflow, v.WorkflowRun = workflowOf(now.Workflow, v.Runs)
	}
	serve(w, r, "primary", view{Title: strings.TrimPrefix(key.String(), "/"), Above: v.Controller, Page: v})
}

// policy is the Content-Security-Policy of pages: nothing is loaded from elsewhere, nothing runs
// but the script of the page, and it looks as its style sheet says. The picture is the empty icon:
// without it browsers ask for one.
var policy = "default-src 'none'; style-src '" + hashOf(styleCSS) + "'; script-src '" + hashOf(followJS) + "'; " +
	"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serve answers with a page, or with its JSON twin.
func serve(w http.ResponseWriter, r *http.Request, page string, v view) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Vary", "Accept")
	if r.FormValue("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(v.Page) // the client has gone
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.Root, v.Style, v.Script = Root, template.CSS(styleCSS), template.JS(followJS)
	_ = templates.ExecuteTemplate(w, page, v) // the client has gone
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
