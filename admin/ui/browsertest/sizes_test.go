package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// widths are those of a telephone, of a tablet and of a desk, in pixels.
var widths = []int64{390, 800, 1280}

// TestSizes: on each screen nothing is cut off, nothing but two texts side by side has to be
// scrolled sideways, and every text of a plot can be read; in light and in dark.
func TestSizes(t *testing.T) {
	m := startMesh(t)
	m.run(t, "apply", "shop", "-f", examples+"policy.yaml")
	m.run(t, "apply", "shop/tighter", "-f", examples+"experiment.yaml")
	m.run(t, "apply", "shop/open", "-f", examples+"experiment.yaml")
	m.run(t, "start", "shop/tighter")
	m.ask(t, append(manyGroups(1)[:30], shopTraffic...))

	b := open(t, m.admin[0])
	b.logIn("olga")
	b.visit(path(tighter))
	b.reads("#live", `Live`)
	b.reads("main", `GET /internal/stock`)
	b.atAllSizes(map[string]string{
		"location": path(location), "experiment": path(tighter), "commit": path(tighter, "commit"), "policy": path(shop),
	})
	m.run(t, "accept", "shop/tighter", "all-items", "--reason", "the tests of the policy show them")
	m.run(t, "commit", "shop/tighter", "--yes", "--require", "requests>=1,newly-denied<=100000,newly-allowed<=100000,failed<=100000,dropped<=100%")
	b.visit(path(shop))
	b.press(`#scroll-revisions tbody tr:first-child a`)
	b.reads("main", `commit of tighter`)
	b.atAllSizes(map[string]string{"revision": b.pathname()})
}

// pathname is the path of the page that is open.
func (b *browser) pathname() string {
	b.t.Helper()
	return evaluate[string](b, "location.pathname")
}

// atAllSizes looks at views on all screens.
func (b *browser) atAllSizes(views map[string]string) {
	b.t.Helper()
	for _, width := range widths {
		b.do(chromedp.EmulateViewport(width, 844))
		for view, address := range views {
			b.visit(address)
			name := fmt.Sprintf("%s-%d", view, width)
			b.holdsAt(name)
			for _, scheme := range []string{"light", "dark"} {
				call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
				}})
				b.picture(name + "-" + scheme)
			}
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
}

// holdsAt holds what is open against the rules of every screen.
func (b *browser) holdsAt(view string) {
	b.t.Helper()
	if !b.fits() {
		b.t.Errorf("%s has to be scrolled sideways", view)
	}
	if cut := evaluate[string](b, cutOff); cut != "" {
		b.t.Errorf("%s: cut off: %s", view, cut)
	}
	if small := evaluate[string](b, plotTexts); small != "" {
		b.t.Errorf("%s: %s", view, small)
	}
}

// cutOff names the tables that are wider than what shows them; two texts may be so that are side
// by side, where there is room for both.
const cutOff = `[...document.querySelectorAll(".scroll")].filter((s) => (innerWidth < 704 || !s.querySelector(".diff")) && s.scrollWidth > s.clientWidth)
	.map((s) => s.id + " by " + (s.scrollWidth - s.clientWidth)).join(", ")`

// plotTexts puts a number of ten digits at the top of each scale, and names the texts that are
// smaller than 11 pixels, not within their plot, beyond the screen, or above each other; and a
// plot alone that takes more than two thirds of a wide screen.
const plotTexts = `(() => {
	const wrong = [];
	for (const plot of document.querySelectorAll(".plot")) {
		const top = plot.querySelector(".peak");
		const before = top.textContent;
		top.textContent = "1,259,083,000";
		const room = plot.querySelector(".frame").getBoundingClientRect();
		const at = [...plot.querySelectorAll(".label")].map((label) => {
			const text = document.createRange();
			text.selectNodeContents(label);
			const r = text.getBoundingClientRect();
			const size = parseFloat(getComputedStyle(label).fontSize);
			if (size < 11) wrong.push(label.textContent + " has " + size + " px");
			if (r.width === 0 || r.left < room.left - 1 || r.right > room.right + 1 || r.right > innerWidth || r.left < 0) wrong.push(label.textContent + " is cut off");
			return r;
		});
		for (let i = 1; i < at.length; i++) if (at[i].left < at[i - 1].right && at[i].top === at[i - 1].top) wrong.push("two texts stand on each other");
		if (innerWidth > 1000 && room.width > innerWidth * 2 / 3) wrong.push("a plot is stretched to " + room.width + " px");
		top.textContent = before;
	}
	return wrong.join(", ");
})()`
