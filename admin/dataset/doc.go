// Package dataset checks and changes what a dataset contains: one JSON document.
//
// The document is kept in one spelling, so that two that mean the same have the same hash, and a
// difference of two versions is one of values. What a policy's own data could not have is refused,
// so that a table can move from a policy into a dataset and back.
package dataset
