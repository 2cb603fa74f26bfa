package bounds

// free are the built-ins that are called as they are. It is a list made by reading each
// of them: the work is a small multiple of the length of the operands, which other limits
// bound (text by maxText, numbers by MaxDigits), or is constant. A built-in of a new
// version of OPA is in no list, and a test fails until somebody has judged it.
var free = []string{
	// Unification, comparisons: at most as much as reading the smaller operand.
	"eq", "equal", "neq", "lt", "lte", "gt", "gte", "assign", "internal.member_3",
	// Constant, or a look-up.
	"count", "object.get", "rand.intn", "uuid.rfc4122", "uuid.parse", "time.now_ns",
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name",
	"cast_boolean", "cast_null", "cast_object", "cast_string", "cast_array",
	"all", "any",
	// Text that is looked through once.
	"contains", "endswith", "startswith", "lower", "upper", "trim_prefix", "trim_suffix", "trim_space",
	"substring", "strings.count", "strings.reverse", "json.is_valid", "crypto.hmac.equal",
	"crypto.md5", "crypto.sha1", "crypto.sha256",
	"crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512",
	"base64.is_valid", "base64.decode", "base64url.decode", "hex.decode",
	"net.cidr_contains", "net.cidr_intersects", "net.cidr_is_valid", "net.cidr_overlap",
	// Moments.
	"time.add_date", "time.clock", "time.date", "time.diff", "time.parse_duration_ns", "time.parse_ns",
	"time.parse_rfc3339_ns", "time.weekday",
	// Without effect here.
	"print", "internal.print", "trace", "internal.test_case", "rego.metadata.chain", "rego.metadata.rule",
}
