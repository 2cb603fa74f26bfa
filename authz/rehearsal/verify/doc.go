// Package verify decides some live requests again, off the request path and from the whole
// input, to verify the shortcuts of live decisions.
//
// A [Verifier] is handed live decisions and draws some of them by chance. The rehearsal
// process decides; here the two decisions are compared. A difference is a bug, which is
// counted and logged, and ends the shortcuts of its policy.
package verify
