//go:build !race

package supervisor

// detector is 1: what the process takes is for its work.
const detector = 1
