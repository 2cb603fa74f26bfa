package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"understudy/cmd/testkit"
)

// browser is one tab of a headless Chromium, with cookies of its own. What a page asks of
// another host, what its policy refuses and what its script throws are errors of the test.
type browser struct {
	t      *testing.T
	ctx    context.Context // the tab
	origin string
	axe    string

	mu     sync.Mutex
	faults []string
}

// open starts a browser for the page of a sidecar.
func open(t *testing.T, admin string) *browser {
	t.Helper()
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Fatalf("AXE names no axe.min.js: run make test-browser: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(testkit.Patience))
	if program := os.Getenv("CHROMIUM"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	}
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	tab, cancelTab := chromedp.NewContext(allocated)
	t.Cleanup(cancelTab)
	b := &browser{t: t, ctx: tab, origin: "http://" + admin, axe: string(axe)}
	if err := chromedp.Listen(tab, b.watch); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	t.Cleanup(func() {
		for _, fault := range b.faults {
			t.Error(fault)
		}
	})
	return b
}

// watch notes what a page must not do.
func (b *browser) watch(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err == nil && to.Scheme != "data" && to.Scheme != "about" && to.Scheme+"://"+to.Host != b.origin {
			b.faults = append(b.faults, "the page asks another host: "+e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "the script throws: "+fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.faults = append(b.faults, "the browser complains: "+e.Entry.Text)
		}
	}
}

// do runs actions, which succeed.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("at %s: %v\n%s", b.at(), err, evaluate[string](b, "document.body.innerText"))
	}
}

// at is the address of the tab.
func (b *browser) at() string {
	at, _ := chromedp.Run(b.ctx, chromedp.Location())
	return at
}

// call runs a command of the browser's protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns what an expression is in the page. A promise is waited for.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("at %s: %v", b.at(), err)
	}
	return v
}

// css selects the first element.
type css = chromedp.CSS

// visit opens an address of the page.
func (b *browser) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.origin+path), chromedp.WaitReady(css("h1")))
}

// logIn pastes a token, if the page asks for one.
func (b *browser) logIn(who string) {
	b.t.Helper()
	b.visit("/ui/")
	b.do(chromedp.SendKeys(css("#token"), tokens[who]), chromedp.Submit(css("#token")))
	b.reads("h1", `local`)
}

// press clicks something that leads to another page, and waits for that.
func (b *browser) press(selector string) {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(css(selector)), chromedp.Click(css(selector)), chromedp.WaitReady(css("h1")))
}

// reads waits until the text of an element matches.
func (b *browser) reads(selector, pattern string) string {
	b.t.Helper()
	matching := regexp.MustCompile(pattern)
	expression := fmt.Sprintf("(document.querySelector(%q) || {innerText: ''}).innerText", selector)
	var text string
	testkit.Await(b.t, fmt.Sprintf("at %s: %s reads %s", b.at(), selector, pattern), func() bool {
		var err error
		text, err = chromedp.Run(b.ctx, chromedp.Evaluate[string](expression)) // an error: it is being loaded
		return err == nil && matching.MatchString(text)
	}, func() any { return text })
	return text
}

// count is the number of elements.
func (b *browser) count(selector string) int {
	b.t.Helper()
	return evaluate[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// inBoth holds the view that is open against the rules, in light and in dark, and takes its
// picture in both.
func (b *browser) inBoth(view string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		b.accessible(view + ", " + scheme)
		b.picture(view + "-" + scheme)
	}
}

// picture writes the whole page to the folder SCREENSHOTS.
func (b *browser) picture(name string) {
	b.t.Helper()
	b.write(name, chromedp.FullScreenshot(100))
}

// top writes what fits on the screen of it.
func (b *browser) top(name string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void]("window.scrollTo(0, 0)"))
	b.write(name, chromedp.CaptureScreenshot())
}

func (b *browser) write(name string, taken chromedp.Action[[]byte]) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, taken)
	if err != nil {
		b.t.Fatal(err)
	}
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		folder = b.t.TempDir()
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		b.t.Fatal(err)
	}
	write(b.t, filepath.Join(folder, name+".png"), string(png))
}

// violation is what axe-core says of a rule that is broken.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML           string `json:"html"`
		FailureSummary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible holds the page against axe-core's rules of WCAG 2.2, levels A and AA, and its
// best practices.
func (b *browser) accessible(view string) {
	b.t.Helper()
	const run = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => JSON.stringify({violations: r.violations, passes: r.passes.length}))`
	evaluate[int](b, b.axe+";0")
	var result struct {
		Violations []violation `json:"violations"`
		Passes     int         `json:"passes"`
	}
	if err := json.Unmarshal([]byte(evaluate[string](b, run)), &result); err != nil {
		b.t.Fatal(err)
	}
	if result.Passes < 10 {
		b.t.Errorf("%s: only %d rules were tried", view, result.Passes)
	}
	for _, v := range result.Violations {
		for i, n := range v.Nodes {
			if i < 3 {
				b.t.Errorf("%s: %s: %s\n%s\n%s", view, v.ID, v.Help, n.HTML, n.FailureSummary)
			}
		}
	}
}

// fits reports whether nothing has to be scrolled sideways.
func (b *browser) fits() bool {
	b.t.Helper()
	return evaluate[bool](b, "document.scrollingElement.scrollWidth <= window.innerWidth")
}

// path is a resource name as an address of the page.
func path(name ...string) string { return "/ui/" + strings.Join(name, "/") }

// regexpOf is a pattern of a text as it is.
func regexpOf(text string) string { return regexp.QuoteMeta(text) }
