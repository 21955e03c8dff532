package why

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"time"
)

//go:embed pages.html
var source string

//go:embed follow.js
var followJS string

// script is what pages run, by its hash alone; see the Content-Security-Policy.
var (
	script     = template.JS(followJS)
	scriptHash = func() string {
		sum := sha256.Sum256([]byte(followJS))
		return base64.StdEncoding.EncodeToString(sum[:])
	}()
)

// view is what each template gets.
type view struct {
	Title, Root string
	Script      template.JS
	Page        any
}

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"seconds": Seconds,
	"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"percent": percent,
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

// percent returns a part of a whole for a bar, from 0 to 100.
func percent(part, whole float64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", min(100, 100*part/whole))
}
