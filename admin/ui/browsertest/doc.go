// Package browsertest has the page in a real browser: its tests run a story from a policy to
// a commit in a headless Chromium, next to two sidecars and live traffic, and hold each view
// against the rules of axe-core. It is a module of its own, for what it needs nobody else
// needs. `make test-browser` runs it.
package browsertest
