// Package decisionlog logs live decisions: each as one event in the shape of OPA's
// decision log.
//
// A [Log] is handed each decision with its request and never makes the caller wait: a
// bounded pool makes the event off the request path, and what does not fit is dropped and
// counted. The policy's own rules may drop an event or mask what is in it; then the
// credentials of the request are hidden, also where a policy repeats them; then the event
// is cut to its size and written. An event of which it is not known what has to be masked
// is written without input, result and labels.
//
// A log may be a sample of what is allowed: each event then says why it is there and what it
// stands for. What is denied, and what an experiment decides otherwise, is always there.
package decisionlog
