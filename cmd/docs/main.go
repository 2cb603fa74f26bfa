// Command docs makes the recording that README.md shows: it reads what a program wrote
// to a terminal and writes an SVG in which that appears line by line (`make recording`).
// check.svg is drawn by hand; the pictures of the page are two of `make test-browser`. The
// tests of this package hold every document of the repository to the program: they run each
// command, and compare the output where it is shown.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs COMMAND < OUTPUT > SVG\nCOMMAND is shown as what was typed; OUTPUT is what it wrote to a terminal of 80 columns.")
		os.Exit(2)
	}
	output, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = draw(os.Stdout, screen{command: os.Args[1], lines: parseLines(string(output))})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}
