package evaluator

// functions are the built-ins whose value is a function of their operands alone. It is a list of what is
// allowed, made by reading each of them, and not OPA's own flag, which misses some:
// crypto.x509.parse_and_verify_certificates reads the clock. A policy that calls what is neither here nor of
// the clock is evaluated by OPA, and its decisions are not kept. A test makes anyone who brings in a new version
// of OPA decide on each new built-in.
var functions = setOf(
	// comparisons and arithmetic
	"eq", "equal", "neq", "lt", "lte", "gt", "gte", "assign",
	"plus", "minus", "mul", "div", "rem", "abs", "ceil", "floor", "round",
	"bits.and", "bits.lsh", "bits.negate", "bits.or", "bits.rsh", "bits.xor",
	"numbers.range", "numbers.range_step",
	// aggregates, arrays, sets, objects
	"count", "sum", "product", "max", "min", "sort", "all", "any", "internal.member_2", "internal.member_3",
	"array.concat", "array.flatten", "array.reverse", "array.slice", "and", "or", "intersection", "union", "set_diff",
	"object.filter", "object.get", "object.keys", "object.remove", "object.subset", "object.union", "object.union_n",
	"json.filter", "json.remove", "json.patch", "walk", "graph.reachable", "graph.reachable_paths",
	// strings
	"concat", "contains", "endswith", "startswith", "format_int", "indexof", "indexof_n", "lower", "upper", "replace",
	"split", "sprintf", "substring", "trim", "trim_left", "trim_prefix", "trim_right", "trim_space", "trim_suffix",
	"strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.render_template",
	"strings.replace_n", "strings.reverse", "strings.split_n", "internal.template_string",
	"regex.find_all_string_submatch_n", "regex.find_n", "regex.globs_match", "regex.is_valid", "regex.match",
	"regex.replace", "regex.split", "regex.template_match", "re_match",
	"glob.match", "glob.quote_meta", "semver.compare", "semver.is_valid",
	"units.parse", "units.parse_bytes",
	// types and casts
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name", "to_number",
	"cast_array", "cast_boolean", "cast_null", "cast_object", "cast_set", "cast_string",
	// encodings
	"base64.decode", "base64.encode", "base64.is_valid", "base64url.decode", "base64url.encode",
	"base64url.encode_no_pad", "hex.decode", "hex.encode", "json.is_valid", "json.marshal",
	"json.marshal_with_options", "json.unmarshal", "urlquery.decode", "urlquery.decode_object", "urlquery.encode",
	"urlquery.encode_object", "yaml.is_valid", "yaml.marshal", "yaml.unmarshal", "json.match_schema",
	"json.verify_schema",
	// tokens and digests; a signature that is checked depends on nothing else
	"io.jwt.decode", "io.jwt.verify_eddsa", "io.jwt.verify_es256", "io.jwt.verify_es384", "io.jwt.verify_es512",
	"io.jwt.verify_hs256", "io.jwt.verify_hs384", "io.jwt.verify_hs512", "io.jwt.verify_ps256",
	"io.jwt.verify_ps384", "io.jwt.verify_ps512", "io.jwt.verify_rs256", "io.jwt.verify_rs384",
	"io.jwt.verify_rs512",
	"crypto.hmac.equal", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512",
	"crypto.md5", "crypto.sha1", "crypto.sha256", "crypto.parse_private_keys",
	"crypto.x509.parse_certificate_request", "crypto.x509.parse_certificates", "crypto.x509.parse_keypair",
	"crypto.x509.parse_rsa_private_key",
	// moments that are operands
	"time.add_date", "time.clock", "time.date", "time.diff", "time.format", "time.parse_duration_ns",
	"time.parse_ns", "time.parse_rfc3339_ns", "time.weekday",
	// addresses, identifiers, schemas
	"net.cidr_contains", "net.cidr_contains_matches", "net.cidr_expand", "net.cidr_intersects", "net.cidr_is_valid",
	"net.cidr_merge", "net.cidr_overlap", "uri.is_valid", "uri.parse", "uuid.parse",
	"graphql.is_valid", "graphql.parse", "graphql.parse_and_verify", "graphql.parse_query", "graphql.parse_schema",
	"graphql.schema_is_valid",
	// notes, which are for OPA's tracer: there is none in a decision
	"trace",
)

// ofTheClock are the built-ins that depend on nothing but their operands and the clock.
var ofTheClock = setOf("time.now_ns", "io.jwt.decode_verify")

// OfTheClock reports whether a built-in depends on the clock, and else on nothing but its operands.
func OfTheClock(name string) bool { return ofTheClock[name] }

// OfChance reports whether nothing is known of what a built-in depends on: of two calls with the same
// operands at the same time each may have a value of its own.
func OfChance(name string) bool { return !functions[name] && !ofTheClock[name] }

func setOf(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
