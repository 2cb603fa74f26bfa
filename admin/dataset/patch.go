package dataset

import (
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// MaxPatchSize is the limit on a patch, in bytes.
const MaxPatchSize = 1 << 20

// Patch applies a JSON Patch (RFC 6902) to a document as Canonical returns it, as a whole or not
// at all, and returns the result, of at most limit bytes, in the same form. The error is an *Error.
func Patch(document, patch []byte, limit int) (_ []byte, err error) {
	if len(patch) > MaxPatchSize {
		return nil, refuse("The patch has %d bytes; the limit is %d. Send several, or upload the document.", len(patch), MaxPatchSize)
	}
	if _, err := Canonical(patch, MaxPatchSize); err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, refuse("It is not a list of the operations of RFC 6902, such as "+
			`{"op": "replace", "path": "/u17/role", "value": "admin"}: %s.`, shown(err.Error()))
	}
	if err := checkOperations(operations); err != nil {
		return nil, err
	}
	changed, err := apply(document, operations, limit)
	if err != nil {
		return nil, err
	}
	return Canonical(changed, limit)
}

// apply is the library's, whose panic is an error: what it reads comes from callers.
func apply(document []byte, operations jsonpatch.Patch, limit int) (changed []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			changed, err = nil, refuse("The patch cannot be applied to this document.")
		}
	}()
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = int64(limit) // many copies of a large value are a bomb
	options.SupportNegativeIndices = false          // RFC 6901 has none
	changed, err = operations.ApplyWithOptions(document, options)
	if err != nil {
		return nil, refuse("The patch does not fit the document: %s. Read the document again; nothing of the patch was applied.", shown(err.Error()))
	}
	return changed, nil
}

// checkOperations refuses paths that the library would take for others.
func checkOperations(operations jsonpatch.Patch) error {
	for i, o := range operations {
		for _, of := range []func() (string, error){o.Path, o.From} {
			if pointer, err := of(); err == nil && pointer != "" && !strings.HasPrefix(pointer, "/") {
				return below(fmt.Sprintf("[%d]", i), refuse("The path %s is no JSON Pointer: it begins with /.", shown(pointer)))
			}
		}
	}
	return nil
}
