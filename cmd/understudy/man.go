//go:build man

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// With the tag man, which only packages are made with, the program writes its own manual pages.
func init() {
	extraCommands = append(extraCommands, func(root *cobra.Command) *cobra.Command {
		return &cobra.Command{
			Use:    "man DIRECTORY",
			Short:  "Write manual pages into a directory",
			Hidden: true,
			Args:   cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				root.DisableAutoGenTag = true // the same source, the same pages
				return doc.GenManTree(root, &doc.GenManHeader{Title: "UNDERSTUDY", Section: "1", Source: "Understudy"}, args[0])
			},
		}
	})
}
