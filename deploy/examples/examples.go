// Package examples is a policy of a small shop and an experiment with it: what the
// README shows and the demo runs.
package examples

import "embed"

// Files are policy.yaml and experiment.yaml, as `understudy apply` reads them, and
// the modules that they name.
//
//go:embed *.yaml *.rego
var Files embed.FS
