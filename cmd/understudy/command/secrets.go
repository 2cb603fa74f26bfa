package command

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Secrets are texts that no message may have, each with the name of the variable that has it.
type Secrets map[string]string

// shortestSecret is the length of what is replaced at least, in bytes. A secret may be as short as 1,
// and it would be replaced wherever that stands.
const shortestSecret = 4

// Add adds texts of a variable, also as they are quoted. Of several variables with one text, the last one counts.
func (s Secrets) Add(variable string, texts ...string) {
	for _, text := range texts {
		if len(text) >= shortestSecret {
			quoted := strconv.Quote(text)
			s[text], s[quoted[1:len(quoted)-1]] = "("+variable+")", "("+variable+")"
		}
	}
}

// Replacer replaces the texts by the names of their variables.
func (s Secrets) Replacer() *strings.Replacer {
	// At one position, the first pair that matches is replaced: the longest has to come first.
	texts := slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, s[text])
	}
	return strings.NewReplacer(pairs...)
}

// HideSecrets replaces secrets that UNDERSTUDY_ variables have by the names of the variables: the
// passwords of URLs, and the names of files with secrets. A password or a key in place of the name
// of its file is a usual mistake, and the error of a file that is not there quotes the name.
func HideSecrets(text string) string {
	secrets := make(Secrets)
	for _, entry := range slices.Backward(os.Environ()) { // the first variable with a text counts
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) {
			secrets.Add(name, secretsIn(name, value)...)
		}
	}
	return secrets.Replacer().Replace(text)
}

var (
	// secretFile matches the variables that name files with secrets, and the client's token.
	secretFile = regexp.MustCompile(`_(TOKEN|KEY|CERT|(TOKEN|PASSWORD|KEY|CERT|CA)_FILE)$`)
	// embeddedSecret matches the password of a URL, and the files of an issuer's settings.
	embeddedSecret = regexp.MustCompile(`://[^/:@\s]*:([^\s,]+)@|\b(?:client-secret|token)-file=([^\s,]+)`)
)

// secretsIn returns what may be secret in the value of a variable.
func secretsIn(name, value string) (secrets []string) {
	if secretFile.MatchString(name) {
		secrets = append(secrets, value)
		// A list has commas, and its elements are FILE or NAME=FILE.
		for element := range strings.SplitSeq(value, ",") {
			secrets = append(secrets, element)
			if _, file, pair := strings.Cut(element, "="); pair {
				secrets = append(secrets, file)
			}
		}
	}
	for _, groups := range embeddedSecret.FindAllStringSubmatch(value, -1) {
		secrets = append(secrets, groups[1:]...)
	}
	return secrets
}
