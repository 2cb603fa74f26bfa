// Package recent keeps a sample of the last hour's requests, in memory alone.
//
// Requests have credentials in them, so that what is kept is bounded in number, in bytes and
// in time, goes nowhere but to the experiments that it is replayed for, and ends with the
// process. Nothing is kept unless it is asked for.
//
// The sample is the requests that drew the highest numbers: each draws one by chance when it
// is decided, and as long as more were decided than there is room for, the lowest ones go. So
// the sample is spread over the hour as the requests were, whatever their rate. A request
// whose number is too low costs a draw and a comparison.
package recent
