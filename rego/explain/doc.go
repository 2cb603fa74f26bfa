// Package explain says which expressions of a policy decided, by comparing how two policies
// evaluated one request.
//
// A [Tracer] watches one evaluation of one policy. What it saw becomes a [Trace]: for each
// rule that took part, whether it held, and at which of its expressions it failed; in the
// words of the source, and with nothing of the request. [Compare] takes the traces of the
// live policy and of a candidate. From the rule that was asked it goes down to the rules
// whose outcome is not the same, as far as it can: there is the cause.
package explain
