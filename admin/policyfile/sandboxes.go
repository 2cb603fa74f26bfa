package policyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// checksumGrammar is that of a file in a cookbook: its MD5.
var checksumGrammar = regexp.MustCompile(`\A[0-9a-f]{32}\z`)

// sandboxGrammar is that of the ID of a sandbox.
var sandboxGrammar = checksumGrammar

// noUpload is what a sandbox says of a file.
type noUpload struct {
	NeedsUpload bool `json:"needs_upload"`
}

// createSandbox answers that no file needs to be uploaded. So a sandbox holds nothing,
// and nothing of it is stored: its ID is the hash of its checksums.
func createSandbox(c *call) (*reply, error) {
	fields, err := members(c.body)
	if err != nil {
		return nil, invalid("invalid JSON : " + err.Error())
	}
	i := slices.IndexFunc(fields, func(f member) bool { return f.name == "checksums" })
	if i < 0 {
		return nil, invalid("Field 'checksums' missing")
	}
	checksums, err := members(fields[i].value)
	if err != nil {
		return nil, invalid("Field 'checksums' invalid : it is an object whose names are the MD5 of files")
	}
	answers := make(map[string]noUpload, len(checksums))
	names := make([]string, len(checksums))
	for i, m := range checksums {
		if !checksumGrammar.MatchString(m.name) {
			return nil, invalid("Field 'checksums' invalid : a name is the MD5 of a file, 32 digits of 0-9 and a-f")
		}
		answers[m.name], names[i] = noUpload{}, m.name
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	id := hex.EncodeToString(sum[:16])
	uri := c.uri("sandboxes", id)
	return &reply{
		status: http.StatusCreated,
		value:  map[string]any{"sandbox_id": id, "uri": uri, "checksums": answers},
		header: http.Header{"Location": {uri}},
	}, nil
}

// commitSandbox says that a sandbox has all of its files, which are none.
func commitSandbox(c *call) (*reply, error) {
	fields, err := members(c.body)
	if err != nil {
		return nil, invalid("invalid JSON : " + err.Error())
	}
	if !slices.ContainsFunc(fields, func(f member) bool { return f.name == "is_completed" && string(f.value) == "true" }) {
		return nil, invalid("Field 'is_completed' invalid : it has to be true")
	}
	id := c.parameters[":sandbox"]
	return &reply{status: http.StatusOK, value: map[string]any{"guid": id, "name": id, "is_completed": true}}, nil
}
