package apierror

import (
	"strings"

	"understudy/admin/aip"
)

// Shown is a text of the caller's as errors repeat it.
func Shown(text string) string { return aip.Shown(text) }

// ProtoText is the text of an error of protojson, without its prefix and the spaces
// that vary on purpose. It quotes the body.
func ProtoText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return Shown(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "proto:")))
}
