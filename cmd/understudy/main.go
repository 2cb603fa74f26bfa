// Understudy rehearses an authorization policy on live traffic before it goes
// live. `understudy serve` is the sidecar and the admin API; the other commands
// are clients of it.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
