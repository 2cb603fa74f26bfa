// Package change says in what two policies differ, item by item, and what a request shows of each item.
//
// An item that no request has shown is what evidence says nothing of: see [Item] for the kinds, and when
// each is seen.
package change
