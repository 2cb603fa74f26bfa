// Package extservice calls external HTTP services on behalf of policies, which choose the
// URL, and so may be wrong or hostile.
//
// A [Client] posts JSON and reads a yes (204), a no (403) or neither. Who may be called,
// with which token, and what a call may cost is the operator's [Config]. An address is
// judged when it is connected to, after the name is resolved; redirects and proxies are
// never followed; a service that hangs holds no more than its own share of the process.
// The package knows nothing of requests and decisions.
package extservice
