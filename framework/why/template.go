package why

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
	"time"
)

//go:embed pages.html
var source string

//go:embed follow.js
var followJS string

//go:embed style.css
var styleCSS string

// hashOf returns the hash by which the Content-Security-Policy names what is inside of pages.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// view is what each template gets.
type view struct {
	Title, Root string
	Above       string // the controller of a primary's page
	Style       template.CSS
	Script      template.JS
	Page        any
}

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"seconds": Seconds,
	"clock":   func(t time.Time) string { return clock(t, time.Now()) },
	"reason":  reason,
	"symbol":  func(state string) string { return looks[state].symbol },
	"percent": percent,
	"kind":    kindOf,
	"draw":    draw,
}).Parse(source))

// Seconds returns a time in seconds as people read it, rounded, with a unit: "1.5s".
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// kindOf returns a kind as people say it, from the text of its group, version and kind: "WebPage,
// samples.evenkeel.dev/v1".
func kindOf(text string) string {
	version, kind, _ := strings.Cut(text, ", Kind=")
	return strings.TrimPrefix(kind+", "+strings.TrimPrefix(version, "/"), ", ")
}

// clock returns a time in UTC, with the day if it is not today.
func clock(t, now time.Time) string {
	const ofDay = "15:04:05.000"
	if t, now = t.UTC(), now.UTC(); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(ofDay)
	}
	return t.Format(time.DateOnly + " " + ofDay)
}

// reason returns the reason of a node's state, unless the error of the run says it already.
func reason(r Run, n Node) string {
	if text := cmp.Or(n.Err, n.Reason); !strings.Contains(r.Err, text) {
		return text
	}
	return ""
}

// percent returns a part of a whole for a bar, from 0 to 100.
func percent(part, whole float64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", min(100, 100*part/whole))
}
