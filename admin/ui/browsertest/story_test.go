package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"understudy/cmd/testkit"
)

// The names of the story.
const (
	location = "projects/default/locations/local"
	shop     = location + "/policies/shop"
	tighter  = shop + "/experiments/tighter"
	examples = "../../../deploy/examples/"
)

// concerned is the request that the experiment would deny.
var concerned = shopTraffic[2]

// TestFromAPolicyToACommit is the whole story, next to two sidecars with live traffic: a
// preview is started in the page, which becomes live by itself, says what would change,
// and commits; all sidecars follow; and it is rolled back.
func TestFromAPolicyToACommit(t *testing.T) {
	m := startMesh(t)
	m.run(t, "apply", "shop", "-f", examples+"policy.yaml")
	m.run(t, "apply", "shop/tighter", "-f", examples+"experiment.yaml")
	m.ask(t, shopTraffic)

	b := open(t, m.admin[0])
	b.logIn("olga")
	b.reads("main", `2 sidecars live`)
	b.inBoth("policies")
	b.top("policies-top")

	// The preview is started, and the page fills without being loaded again.
	b.visit(path(tighter))
	b.reads("#main", `No request has been compared`)
	b.press("#b-start")
	b.reads("#live", `Live`)
	b.reads("#groups + form, main", `GET /internal/stock`)
	if !m.allows(t, 0, concerned) {
		t.Error("an experiment that is previewed denies a request")
	}
	b.reads("#h-verdict", `\S`)
	b.inBoth("experiment")
	b.openGroup()
	b.inBoth("group")
	b.top("experiment-top")

	// Everything is there without the script, and on a narrow screen.
	b.withoutScript()
	b.narrow()

	// It is committed on the second sidecar's page: any of them serves all.
	b.visit(path(tighter, "commit"))
	b.reads("main", b.etagsOf(m))
	b.inBoth("commit")
	// It says what the report does not show, and asks why that is as it should be.
	b.do(chromedp.Focus(css("#reason")), chromedp.KeyEvent("services call by name from now on"))
	b.press("#b-commit")
	b.reads("#h-operation", `Done`)
	b.reads("main", `2 of 2`)
	b.inBoth("operation")
	for sidecar := range m.authz {
		if m.allows(t, sidecar, concerned) {
			t.Errorf("sidecar %d allows what the committed policy denies", sidecar+1)
		}
	}

	b.visit(path(shop))
	b.inBoth("policy")
	b.rollBack()
	for sidecar := range m.authz {
		if !m.allows(t, sidecar, concerned) {
			t.Errorf("sidecar %d denies what the policy allows that was put back", sidecar+1)
		}
	}
}

// openGroup opens the group of requests that differ by the keyboard, and sees that it stays
// open while the page goes on.
func (b *browser) openGroup() {
	b.t.Helper()
	// A group that is alone is open from the start.
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("td.what details").forEach((d) => { d.open = false; })`))
	b.do(chromedp.Focus(css("td.what summary")), chromedp.KeyEvent(kb.Enter))
	b.reads("dl.group", `Because of`)
	before := b.reads("#h-numbers ~ *, section[aria-labelledby=h-numbers]", `\d`)
	for b.reads("#h-numbers ~ *, section[aria-labelledby=h-numbers]", `\d`) == before {
		b.reads("#live", `Live`)
	}
	if !evaluate[bool](b, `document.querySelector("td.what details").open && document.activeElement.matches("td.what summary")`) {
		b.t.Error("what was open is closed, or the focus is lost, when the page goes on")
	}
}

// etagsOf is a pattern of a text with the etags of the experiment and of the live policy.
func (b *browser) etagsOf(m *mesh) string {
	b.t.Helper()
	var policy, experiment struct {
		Etag string `json:"etag"`
	}
	m.call(b.t, "GET", "/v1/"+shop, nil, &policy)
	m.call(b.t, "GET", "/v1/"+tighter, nil, &experiment)
	b.reads("main", regexpOf(policy.Etag))
	return regexpOf(experiment.Etag)
}

// withoutScript loads the experiment with scripts off.
func (b *browser) withoutScript() {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit(path(tighter) + "?sort=-callers&q=stock")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	b.reads("main", `GET /internal/stock`)
	b.reads("#live", `Load the page again`)
	b.visit(path(tighter))
}

// narrow shows each view as wide as a screen of 1280 pixels is at a zoom of 400 % (WCAG 2.2,
// 1.4.10), which is less than the smallest telephone has.
func (b *browser) narrow() {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(320, 740))
	for view, address := range map[string]string{
		"policies": path(location), "experiment": path(tighter), "commit": path(tighter, "commit"), "stages": path(location, "stages"), "policy": path(shop),
		"nothing": path(location, "policies", "not-there"), "found": path(tighter) + "?q=nothing-has-this",
	} {
		b.visit(address)
		if !b.fits() {
			b.t.Errorf("%s has to be scrolled sideways on a narrow screen", view)
		}
		b.accessible(view + ", narrow")
		b.picture(view + "-narrow")
	}
	b.do(chromedp.EmulateViewport(1280, 900))
}

// rollBack puts the first revision back, from the policy's view.
func (b *browser) rollBack() {
	b.t.Helper()
	b.press(`a[href$="/rollback"]`)
	b.inBoth("rollback")
	b.press("#b-rollback")
	b.reads("#h-operation", `Done`)
}

// TestWhoMayReadIsOfferedNothingElse: a viewer sees the same and may change nothing; who has
// no role sees what is missing.
func TestWhoMayReadIsOfferedNothingElse(t *testing.T) {
	m := startMesh(t)
	m.run(t, "apply", "shop", "-f", examples+"policy.yaml")
	m.run(t, "apply", "shop/tighter", "-f", examples+"experiment.yaml")
	m.ask(t, shopTraffic)
	m.run(t, "start", "shop/tighter")

	b := open(t, m.admin[1])
	b.visit("/ui/")
	b.inBoth("login")
	b.do(chromedp.SendKeys(css("#token"), tokens["vera"]), chromedp.Submit(css("#token")))
	b.reads("main", `understudy\.\w+\.\w+`)
	b.inBoth("denied")

	m.run(t, "iam", "grant", location, "token:vera", "viewer")
	b.visit(path(tighter))
	b.reads("main", `GET /internal/stock`)
	if n := b.count("main form[method=post], #b-commit, #b-start, #b-stop"); n != 0 {
		t.Errorf("a viewer is offered %d actions", n)
	}
	b.visit(path(tighter, "commit"))
	b.reads("main", `understudy\.experiments\.commit`)
	b.inBoth("refused")
}

// TestStagesByKeyboard: the chain of locations, and a promotion without a mouse.
func TestStagesByKeyboard(t *testing.T) {
	m := startMesh(t)
	m.run(t, "apply", "shop", "-f", examples+"policy.yaml")
	m.call(t, "PATCH", "/v1/"+location+"/config?updateMask=nextLocation", map[string]string{"nextLocation": "projects/default/locations/prod"}, nil)

	b := open(t, m.admin[0])
	b.logIn("olga")
	b.visit(path(location, "stages"))
	b.inBoth("stages")
	b.do(chromedp.KeyEvent(kb.Tab))
	if !evaluate[bool](b, `document.activeElement.matches("a.skip")`) {
		t.Error("the first stop of the Tab key does not skip to the content")
	}
	b.do(chromedp.Focus(css(`a[href$="/promote"], a[href*="/promote?"]`)), chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(css("#b-promote")))
	b.inBoth("promote")
	b.do(chromedp.Focus(css("#b-promote")), chromedp.KeyEvent(kb.Enter))
	b.reads("#h-operation", `Done`)
	b.visit(path(location, "stages"))
	b.reads("main", `the same|nothing differs|no difference`)
}

// TestManyGroups: as many groups as sidecars keep are shown, sorted and found.
func TestManyGroups(t *testing.T) {
	m := startMesh(t)
	m.run(t, "apply", "shop", "-f", examples+"allow.yaml")
	m.call(t, "POST", "/v1/"+shop+"/experiments?policyExperimentId=none", map[string]any{"policy": map[string]any{
		"name": shop, "rules": []any{map[string]any{"rego": map[string]any{}}},
		"modules": map[string]string{"a.rego": "package envoy.authz\n\nimport rego.v1\n\ndefault allow := false\n"},
	}}, nil)
	m.run(t, "start", "shop/none")
	m.ask(t, manyGroups(10), manyGroups(20))

	b := open(t, m.admin[0])
	b.logIn("olga")
	testkit.Await(t, "there are a hundred groups and more", func() bool {
		b.visit(path(shop, "experiments", "none"))
		return b.count("table.groups tbody tr") > 100
	})
	b.inBoth("groups")
	b.visit(path(shop, "experiments", "none") + "?q=area-21")
	b.reads("table.groups", `/area-21/`)
	if shown := b.count("table.groups tbody tr"); shown == 0 || shown > 10 {
		t.Errorf("the filter shows %d groups, want those of one area", shown)
	}
	b.press("#s-callers")
	b.reads("table.groups", `/area-21/`)
}
