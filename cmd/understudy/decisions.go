package main

import (
	"time"

	"github.com/spf13/pflag"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/cmd/understudy/command"
)

// defaultDecisionCache is how many decisions a policy caches if nothing else is said.
const defaultDecisionCache = 65_536

// decisionsConfig is how live decisions are made and answered, and what they may cost.
type decisionsConfig struct {
	// defaultDecision is deny or allow: what is answered where there is no policy.
	defaultDecision string
	// decisionTimeout bounds one live evaluation, next to the timeout that Envoy sends
	// along. A request whose evaluation takes longer is denied.
	decisionTimeout time.Duration
	// failWithError is one of the values below.
	failWithError string
	// decisionIDHeader is a header of denials; empty is none. By its value a user who was
	// refused can name the decision, and an operator finds it in logs and records.
	decisionIDHeader string
	// observe answers every request OK, for a sidecar next to an authorizer that enforces.
	observe bool
	// descriptorSet is a file; empty leaves the bodies of gRPC requests unparsed.
	descriptorSet string
	// tokenPayload is where Envoy's jwt_authn filter has the payload of a token that it verified; empty is nowhere.
	tokenPayload string
	// duplicateKeys is deny or allow: what becomes of a JSON body of which an object has a key twice.
	duplicateKeys string
	// decisionCache is the number of decisions that each policy caches; 0 is none.
	decisionCache int
	// bodyMemory is in bytes.
	bodyMemory int64
}

// bind declares the flags.
func (c *decisionsConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.defaultDecision, "default-decision", "deny", "the decision where there is no policy: deny or allow")
	f.DurationVar(&c.decisionTimeout, "decision-timeout", 100*time.Millisecond, "the longest time that one decision takes itself, without waiting for others; past it the request is denied")
	f.StringVar(&c.failWithError, "fail-with-error", failNot, "answer a policy's failure with an error, so that Envoy's failure_mode_allow decides, instead of a denial: "+
		"a gRPC error, or with =response an error_response, whose metadata Envoy 1.38 and later have in the access log and 1.36 makes a 403")
	f.Lookup("fail-with-error").NoOptDefVal = failError
	f.StringVar(&c.decisionIDHeader, "decision-id-header", "", "a header in which a client that is denied over gRPC gets the decision ID, such as x-decision-id; over HTTP it always is (default none)")
	f.BoolVar(&c.observe, "observe", false, "decide and record as always, and refuse nobody: every answer is OK without an edit; to watch next to an authorizer that enforces")
	f.StringVar(&c.descriptorSet, "grpc-descriptor-set", "", "a file by which policies see the bodies of gRPC requests, as protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE makes it")
	f.StringVar(&c.tokenPayload, "token-payload", "", "where Envoy's jwt_authn filter has the payload of a token that it verified, its payload_in_metadata: iss and sub name the caller in reports where neither a certificate nor a label does (default nowhere)")
	f.StringVar(&c.duplicateKeys, "duplicate-keys", "deny", "a JSON body that a policy reads and of which an object has a key twice: deny answers 400, because the upstream may take the other value; allow reads the last one, as OPA does")
	f.Int64Var(&c.bodyMemory, "body-memory", 64<<20, "the memory for what policies read of bodies at a time, in bytes: a body takes about 500 for each of its values; beyond it a request whose body is read is denied with 503")
	f.IntVar(&c.decisionCache, "decision-cache", defaultDecisionCache, "how many decisions each live policy caches, of about 200 bytes; 0 for none")
}

// check calls check with each rule and whether it is kept.
func (c *decisionsConfig) check(check rule) {
	check(command.OneOf(c.defaultDecision, "deny", "allow"), "default-decision", "it is deny or allow")
	check(c.decisionTimeout > 0, "decision-timeout", "it is a duration above zero, such as 100ms")
	check(command.OneOf(c.failWithError, failNot, failError, failResponse), "fail-with-error", "it is true, false or response")
	if _, err := extauthz.WithDecisionIDHeader(c.decisionIDHeader); c.decisionIDHeader != "" && err != nil {
		check(false, "decision-id-header", err.Error())
	}
	check(command.OneOf(c.duplicateKeys, "deny", "allow"), "duplicate-keys", "it is deny or allow")
	check(c.bodyMemory > 0, "body-memory", "it is a number of bytes above zero, such as 67108864")
	check(c.decisionCache >= 0, "decision-cache", "it is a number of decisions, such as 65536, or 0")
}

// cacheSize returns the number of decisions that a policy caches, as authz has it: there 0
// is the default.
func (c *decisionsConfig) cacheSize() int {
	if c.decisionCache == 0 {
		return -1
	}
	return c.decisionCache
}

// allowsDuplicateKeys reports whether JSON bodies are read of which an object has a key twice.
func (c *decisionsConfig) allowsDuplicateKeys() bool { return c.duplicateKeys == "allow" }

// effect returns the default decision as authz has it. Anything that is not allow is a
// denial.
func (c *decisionsConfig) effect() authz.Effect {
	if c.defaultDecision == "allow" {
		return authz.Allow
	}
	return authz.Deny
}

// The values of --fail-with-error.
const (
	// A failure is a denial, whatever failure_mode_allow in Envoy's filter says.
	failNot = "false"
	// A failure is an error of gRPC, so failure_mode_allow decides.
	failError = "true"
	// A failure is an error_response, whose metadata Envoy 1.38 and later have in the
	// access log; 1.36 makes a 403 of it.
	failResponse = "response"
)

// onFailure says how a policy's failure is answered.
func (c *decisionsConfig) onFailure() []extauthz.Option {
	switch c.failWithError {
	case failError:
		return []extauthz.Option{extauthz.OnFailureError()}
	case failResponse:
		return []extauthz.Option{extauthz.OnFailureResponse()}
	}
	return nil
}
