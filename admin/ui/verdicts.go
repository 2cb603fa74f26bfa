package ui

import "understudy/admin/report/verdict"

// verdictView is a verdict with the colour and the sign that it is shown with: each says what
// the word says, and none is needed to know it.
type verdictView struct {
	verdict.Verdict
	// Tone is the class of the colour, Icon the name of the sign.
	Tone string
}

// viewOf is that of a verdict.
func viewOf(v verdict.Verdict) verdictView {
	tone := map[verdict.Tone]string{verdict.Good: "good", verdict.Look: "look", verdict.Bad: "bad"}[v.Tone]
	if tone == "" {
		tone = "unknown"
	}
	return verdictView{v, tone}
}
