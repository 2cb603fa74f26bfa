package access

import (
	"strings"
	"unicode"
)

// maxDisplay bounds a name for people, in characters.
const maxDisplay = 64

// maxMarks is how many marks stand on one letter of a name, such as accents: more would cover
// what stands next to it.
const maxMarks = 3

// DisplayName is a text that somebody chose for themselves as a name that can be shown next to
// anything: it has letters, digits, single blanks and @._+-', and no more than 64 characters.
// Without a colon it is nobody's member, and without brackets it stays in those around it.
func DisplayName(text string) string {
	var b strings.Builder
	length, marks, blank := 0, maxMarks, false
	for _, r := range text {
		switch {
		case unicode.IsMark(r):
			if marks++; marks > maxMarks {
				continue
			}
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@._+-'", r):
			if blank && length > 0 {
				b.WriteByte(' ')
				length++
			}
			marks, blank = 0, false
		default:
			marks, blank = maxMarks, true
			continue
		}
		if length++; length > maxDisplay {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// Named is the member with the name for people, if there is one, as texts show both:
// "ann@example.com (oidc:https://login.example.com#00u1abcd)". What stands in the brackets is who
// it is.
func (p Principal) Named() string {
	if p.Display == "" || p.Member == "" {
		return p.Member
	}
	return p.Display + " (" + p.Member + ")"
}
