// Package check holds the files that run Understudy against the types of those who read
// them: compose, Kubernetes, Istio; and what others write, which Understudy reads: OPA's
// decision log. It is a module of its own, so that the product's
// go.mod has what the product links.
package check
