package content

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// maxDataDepth is how deep the objects and lists of a policy's data may be nested, data
// itself counted. In protobuf an object within an object is three messages
// (google.protobuf.Struct, its map entry and Value), and the parsers of C++, Java and
// Python refuse messages that are nested deeper than 100: they could read neither such a
// policy nor a list that it is in. Go's parser stops at 10,000.
const maxDataDepth = 32

// CheckDepth refuses data that is nested too deep. field is the path of the policy in the
// request. The data of before, the policy as it is stored, is let through: it was taken
// when there was no limit, and a change of something else must not fail by it. Before may
// be nil.
func CheckDepth(field apierror.Field, p, before *adminpb.Policy) error {
	root := structpb.NewStructValue(p.GetData())
	if !deeperThan(root, maxDataDepth) {
		return nil
	}
	if before != nil && proto.Equal(p.GetData(), before.GetData()) {
		return nil
	}
	return apierror.Invalid(apierror.ReasonInvalidField, apierror.Field(apierror.Shown(deepPath(field+".data", root))), fmt.Sprintf(
		"Objects and lists are nested deeper than %d here, data itself counted. Make the data flatter, "+
			"for instance with one object whose keys are paths.", maxDataDepth))
}

// deeperThan reports whether more than limit objects and lists are nested in each other.
// It looks no deeper than that.
func deeperThan(v *structpb.Value, limit int) bool {
	if v.GetStructValue() == nil && v.GetListValue() == nil {
		return false
	}
	if limit == 0 {
		return true
	}
	for _, inner := range v.GetStructValue().GetFields() {
		if deeperThan(inner, limit-1) {
			return true
		}
	}
	return slices.ContainsFunc(v.GetListValue().GetValues(), func(inner *structpb.Value) bool {
		return deeperThan(inner, limit-1)
	})
}

// deepPath returns the path of the first value that is one level too deep. There has to
// be one.
func deepPath(path apierror.Field, v *structpb.Value) string {
	var b strings.Builder
	b.WriteString(string(path))
	for limit := maxDataDepth; limit > 0; limit-- {
		var segment string
		segment, v = deepest(v, limit-1)
		b.WriteString(segment)
	}
	return b.String()
}

// deepest returns the first element of an object or a list that is nested deeper than
// limit, with its segment of the path. Objects are searched in the order of their keys.
func deepest(v *structpb.Value, limit int) (string, *structpb.Value) {
	fields := v.GetStructValue().GetFields()
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if deeperThan(fields[key], limit) {
			return KeySegment(key), fields[key]
		}
	}
	for i, inner := range v.GetListValue().GetValues() {
		if deeperThan(inner, limit) {
			return fmt.Sprintf("[%d]", i), inner
		}
	}
	return "", v
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// KeySegment is the segment of a path for a key of an object.
func KeySegment(key string) string {
	if plainKey.MatchString(key) {
		return "." + key
	}
	return fmt.Sprintf("[%q]", key)
}
