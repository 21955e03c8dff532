package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// links returns the addresses to which a page leads, without repetitions.
func (w *window) links() []string {
	w.t.Helper()
	return ask[[]string](w, `[...new Set([...document.querySelectorAll("a")].map((a) => a.href))]`)
}

// everyPage opens all pages that can be reached from one, and hands each to a check.
func (w *window) everyPage(from string, check func(url string)) (seen []string) {
	w.t.Helper()
	for open := []string{from}; len(open) > 0; open = open[1:] {
		if slices.Contains(seen, open[0]) {
			continue
		}
		w.see(open[0])
		seen = append(seen, open[0])
		check(open[0])
		open = append(open, w.links()...)
	}
	return seen
}

// Problems that a reader of the page can have, by JavaScript; each returns what is wrong.
const (
	tooWide = `[document.documentElement.scrollWidth > innerWidth ? "the page is " + document.documentElement.scrollWidth + " wide" : "",
		...[...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide, pre") && e.getBoundingClientRect().right > innerWidth + 1)
			.map((e) => e.tagName + " ends at " + e.getBoundingClientRect().right)].filter(Boolean).join("; ")`
	// faint finds texts whose contrast to what is behind them is below 4.5 : 1, as WCAG 2 computes it.
	faint = `(() => {
		const channels = (color) => (color.match(/[\d.]+/g) ?? ["0", "0", "0", "0"]).map(Number);
		const opaque = (color) => color && color !== "none" && (channels(color)[3] ?? 1) > 0;
		const luminance = (color) => channels(color).slice(0, 3).map((c) => c / 255)
			.map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
			.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			const rect = e.closest("g")?.querySelector("rect");
			if (rect && opaque(getComputedStyle(rect).fill)) return getComputedStyle(rect).fill;
			for (; e; e = e.parentElement) if (opaque(getComputedStyle(e).backgroundColor)) return getComputedStyle(e).backgroundColor;
			return "rgb(255, 255, 255)";
		};
		const found = [];
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) {
			const e = texts.currentNode.parentElement;
			if (!texts.currentNode.data.trim() || e.closest("script, title")) continue;
			const style = getComputedStyle(e);
			const [a, b] = [luminance(e.closest("svg") ? style.fill : style.color), luminance(behind(e))];
			const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
			if (contrast < 4.5) found.push(texts.currentNode.data.trim() + " has " + contrast.toFixed(2));
		}
		return found.join("; ");
	})()`
)

func TestPagesAreReadableOnEveryScreen(t *testing.T) {
	if theBrowser == nil {
		t.Skip(noBrowser)
	}
	for name, url := range map[string]string{"an operator": newWorld(t).url, "long texts": longTexts(t), "an operator without records": nothingYet(t)} {
		for _, l := range []look{{}, {dark: true}, {phone: true}, {phone: true, dark: true}} {
			t.Run(fmt.Sprint(name, " ", l), func(t *testing.T) {
				w := open(t, l)
				w.everyPage(url, func(url string) {
					if wrong := ask[string](w, tooWide); wrong != "" {
						t.Errorf("%s: %s", url, wrong)
					}
					if wrong := ask[string](w, faint); wrong != "" {
						t.Errorf("%s: %s", url, wrong)
					}
					if dark := ask[bool](w, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every((c) => c < 64)`); dark != l.dark {
						t.Errorf("%s: the background is dark: %v", url, dark)
					}
				})
			})
		}
	}
}

// The checks of this package find what they look for.
func TestWhatIsWrongIsFound(t *testing.T) {
	if theBrowser == nil {
		t.Skip(noBrowser)
	}
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		to.Header().Set("Content-Type", "text/html")
		to.Header().Set("Content-Security-Policy", "script-src 'self' 'sha256-5HGRGMDlmA7lYp/gcXWeuxZHJLT4E83T1DJkNfwFHR4='")
		fmt.Fprint(to, `<body style="background: #fff"><p style="color: #888">faint</p><div style="width: 2000px">wide</div>`+map[string]string{
			"/refused": `<script>1</script>`, "/missing": `<img src="http://localhost:1/none.png">`,
		}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	w := open(t, look{phone: true})
	w.do(chromedp.Navigate(server.URL + "/plain"))
	if got := ask[string](w, faint); got != "faint has 3.54" {
		t.Errorf("faint: %q", got)
	}
	if got := ask[string](w, tooWide); !strings.Contains(got, "the page is ") || !strings.Contains(got, "DIV ends at 2") {
		t.Errorf("too wide: %q", got)
	}
	w.do(chromedp.Navigate(server.URL + "/refused"))
	if heard := w.heard(); !strings.Contains(heard, "Content Security Policy") || !strings.Contains(heard, "ContentSecurityPolicyIssue") {
		t.Errorf("a refused script: %q", heard)
	}
	w = open(t, look{})
	w.do(chromedp.Navigate(server.URL + "/missing"))
	if heard := w.heard(); !strings.Contains(heard, "none.png") {
		t.Errorf("a missing picture: %q", heard)
	}
	w = open(t, look{})
	w.do(chromedp.Navigate(server.URL), chromedp.Evaluate[chromedp.Void](`console.warn("careful")`))
	if heard := w.heard(); !strings.Contains(heard, "careful") {
		t.Errorf("a warning: %q", heard)
	}
}

func TestOneReachesEveryPageByLinks(t *testing.T) {
	w := open(t, look{})
	world := newWorld(t)
	w.see(world.url)
	w.until(`document.querySelector("a.bad")`) // the failing primary
	w.do(chromedp.Click(chromedp.Search(`//a[text()="webpage"]`)), chromedp.WaitVisible(chromedp.Search(`//h2[text()="Slowest"]`)))
	w.do(chromedp.Click(chromedp.Search(`//a[text()="default/shop"]`)), chromedp.WaitVisible(chromedp.Search(`//h1[text()="default/shop"]`)))
	w.do(chromedp.Click(chromedp.Search(`//nav/a[text()="webpage"]`)), chromedp.WaitVisible(chromedp.Search(`//h2[text()="Slowest"]`)))
	w.do(chromedp.Click(chromedp.Search(`//nav/a[text()="operator"]`)), chromedp.WaitVisible(chromedp.Search(`//h2[text()="Caches"]`)))
	seen := w.everyPage(world.url, func(string) {})
	want := []string{"", "webpage", "webpage/default/broken", "webpage/default/hello", "webpage/default/shop"}
	for i := range want {
		want[i] = world.url + want[i]
	}
	if slices.Sort(seen); !slices.Equal(seen, want) {
		t.Errorf("%q can be reached, want %q", seen, want)
	}
}

func TestAnOpenPageFollowsWhatHappens(t *testing.T) {
	w := open(t, look{phone: true})
	world := newWorld(t)
	w.see(world.url + "webpage/default/hello")
	w.until(`document.querySelector("#state.live")?.textContent == "live"`)
	w.until(`[...document.querySelectorAll("g.ready .name")].some((e) => e.textContent == "deployment")`)
	newest := `document.querySelector("details.run")`
	ids := ask[[]string](w, `[...document.querySelectorAll("details.run")].map((d) => d.id)`)
	for _, id := range ids[:2] { // closes the newest, and opens the other
		w.do(chromedp.Click(chromedp.CSS("#" + id + " > summary")))
	}
	toggled := fmt.Sprintf(`!document.getElementById(%q).open && document.getElementById(%q).open`, ids[0], ids[1])
	w.until(toggled)
	scrolled := ask[float64](w, `(() => { window.same = true; scrollTo(0, 30); return scrollY; })()`)

	world.change("hello", "<p>changed</p>")
	w.until(`[...document.querySelectorAll("details.run")].some((d) => d.textContent.includes("WebPage default/hello updated"))`)
	if !ask[bool](w, newest+`.open`) || !ask[bool](w, toggled) {
		t.Error("the newest run must be open, and those that were closed and opened must stay so")
	}
	if !ask[bool](w, `window.same === true`) {
		t.Error("the page was loaded again")
	}
	if now := ask[float64](w, `scrollY`); scrolled == 0 || now < scrolled {
		t.Errorf("the page was scrolled to %v, and has moved to %v", scrolled, now)
	}
	if heard := w.heard(); heard != "" {
		t.Error(heard)
	}
}

func TestPagesNeedNoScript(t *testing.T) {
	w := open(t, look{noScript: true})
	world := newWorld(t)
	for path, texts := range map[string][]string{
		"":                       {"Controllers", "webpage", "WebPage, samples.evenkeel.dev/v1", "Caches"},
		"webpage":                {"Workflow", "deployment", "Newest", "default/shop"},
		"webpage/default/shop":   {"Ready", "apply Deployment default/shop", "ingress", "Causes"},
		"webpage/default/broken": {"Failed", "exceeded quota: small"},
	} {
		w.see(world.url + path)
		text := ask[string](w, `document.body.textContent`) // the protocol may run scripts
		for _, part := range texts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", path, part)
			}
		}
		if ask[string](w, `document.querySelector("#state").textContent`) != "" {
			t.Error("the script of the page runs")
		}
	}
}

func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots: make screenshots takes them")
	}
	world := newWorld(t)
	for name, of := range map[string]struct {
		path string
		look look
	}{
		"operator":   {"", look{}},
		"controller": {"webpage", look{}},
		"primary":    {"webpage/default/broken", look{phone: true, dark: true}},
	} {
		w := open(t, of.look)
		w.see(world.url + of.path)
		w.until(`document.querySelector("#state.live")`)
		picture := result(w, chromedp.CaptureScreenshot())
		noError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644))
		if len(picture) > 150_000 {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
	}
}
