package cache_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/cmd/testkit"
)

// realisticData is the data of the random policies: tables by users and roles, lists and numbers.
var realisticData = map[string]any{
	"roles":    map[string]any{"admin": []any{"read", "write", "delete"}, "user": []any{"read"}, "1": []any{"read"}, "guest": []any{}, "/a": []any{"x"}},
	"users":    map[string]any{"alice": map[string]any{"role": "admin", "tenants": []any{"t1", "t2"}, "level": 3.0}, "bob": map[string]any{"role": "user", "tenants": []any{"t2"}, "level": 1.0}, "1": map[string]any{"role": "guest", "tenants": []any{}, "level": 0.0}},
	"grants":   []any{map[string]any{"role": "admin", "method": "GET", "prefix": "/a"}, map[string]any{"role": "user", "method": "GET", "prefix": "/a/b"}, map[string]any{"role": "user", "method": "POST", "prefix": "/c"}, map[string]any{"role": 1.0, "method": "GET", "prefix": "/"}, map[string]any{"role": nil, "method": "PUT", "prefix": ""}},
	"levels":   []any{0.0, 1.0, 2.0, 3.0},
	"public":   []any{"/a", "/c", "/health"},
	"table":    map[string]any{"0": "zero", "1": "one", "t1": map[string]any{"0": "a", "x": 1.0}, "2": 2.0},
	"rows":     []any{[]any{"alice", 1.0}, []any{"bob", 2.0}, []any{1.0, "x"}},
	"nums":     []any{1.0, 2.0, 9007199254740993.0},
	"patterns": []any{"^/a", "b$", "^[a-z]+$", "(?i)ALICE"},
	"globs":    []any{"/a/*", "/a/**", "*"},
}

// realistic makes random policies as people write them: tokens, roles, tables, paths, clocks, functions and
// rules that depend on each other; and requests that they decide differently.
type realistic struct {
	*rand.Rand
	// names is how many variables have a name so far.
	names int
}

// pick returns one of some texts.
func (g *realistic) pick(o ...string) string { return o[g.IntN(len(o))] }

// name returns a new variable.
func (g *realistic) name() string { g.names++; return fmt.Sprintf("v%d", g.names) }

// val is a value, mostly of the request.
func (g *realistic) val() string {
	switch g.IntN(16) {
	case 0:
		return "user"
	case 1, 2:
		return "claims." + g.claim()
	case 3:
		return "object.get(claims, " + g.pick(`"sub"`, `"n"`, `["a","b"]`, `["l",0]`, `role`, `"x"`, `["o",role]`) + ", " + g.pick("null", `"d"`, "0", "1", "[]", "role") + ")"
	case 4:
		return fmt.Sprintf("parsed[%s]", g.pick("0", "1", "2", "count(parsed)-1", "claims.n", "17"))
	case 5:
		return "http.path"
	case 6:
		return "role"
	case 7:
		return `http.headers["x-tenant"]`
	case 8:
		return g.pick(`split(http.path, "/")[1]`, `split(user, "-")[0]`, `lower(role)`, `upper(role)`, `trim_prefix(http.path, "/")`, `substring(http.path, 0, 2)`, `concat("/", parsed)`, `replace(http.path, "a", role)`, `sprintf("%s:%v", [role, claims.n])`, `sprintf("%v", [claims.`+g.claim()+`])`, `json.marshal(claims.`+g.claim()+`)`, `to_number(http.headers["x-n"])`, `count(claims.`+g.claim()+`)`, `trim(role, "a")`, `format_int(claims.n, 10)`, `indexof(http.path, "b")`, `type_name(claims.`+g.claim()+`)`)
	case 9:
		return g.pick("data.users[user].role", "data.users[claims.sub].level", "data.users[user].tenants[0]", "data.table[claims.n]", "data.table[role]", `data.table[http.headers["x-tenant"]]`, "data.levels[claims.n]", "data.roles[role][0]", "data.table.t1[claims.n]")
	case 10:
		return g.pick("f1("+g.leaf()+")", "f2("+g.leaf()+", "+g.leaf()+")", "f3("+g.leaf()+")", "f4("+g.leaf()+")", "po["+g.leaf()+"]", "ps["+g.leaf()+"]", "ch1", "ch2", "po", "ps", "po2["+g.leaf()+"]", "po2")
	case 11:
		return g.pick("claims.n + 1", "claims.n * 2", "abs(claims.n)", "round(claims.n)", "claims.n % 3", "claims.n - claims.m", "floor(claims.m)")
	case 12:
		return g.pick("max(claims.l)", "sum(claims.l)", "min(claims.l)", "sort(claims.l)", "array.concat(claims.l, [1])", "array.slice(claims.l, 0, 1)", "{x | some x in claims.l}", "object.keys(claims.o)", "union({{x | some x in claims.l}, {1}})", "object.union(claims.o, {\"a\": role})", "json.remove(claims, [\"exp\"])", "object.filter(claims, [\"sub\", role])", "object.remove(claims, [\"exp\", role])", "walkc", "http.headers[role]", "strings.reverse(role)")
	case 13:
		x := g.name()
		return g.pick(
			fmt.Sprintf("[%s | some %s in claims.l; %s]", x, x, g.leafcond(x)),
			fmt.Sprintf("{%s | some %s in claims.l; %s}", x, x, g.leafcond(x)),
			fmt.Sprintf("{%s: 1 | some %s in claims.l; %s}", x, x, g.leafcond(x)),
			fmt.Sprintf("{i%s: %s | some i%s, %s in claims.l; %s}", x, x, x, x, g.leafcond(x)),
			fmt.Sprintf("[%s | some %s in data.roles[role]]", x, x),
			fmt.Sprintf("{%s.prefix | some %s in data.grants; %s.role == role}", x, x, x),
			fmt.Sprintf("{%s: v%s | some %s, v%s in claims.o; %s}", x, x, x, x, g.leafcond("v"+x)),
			fmt.Sprintf("{%s: v%s | some %s, v%s in http.headers; %s}", x, x, x, x, g.leafcond("v"+x)),
			fmt.Sprintf("count([1 | %s := claims.l[_]; %s])", x, g.leafcond(x)),
		)
	case 14:
		return g.pick("1", "1.0", "0", `"admin"`, `"alice"`, "null", "true", "[]", "{}", "set()", `["a"]`, `{"a": 1}`, `""`, "9007199254740993", "9007199254740992", "1e400", "-0", "0.1", "1e0")
	}
	return g.leaf()
}

// claim is a path in the claims of a token.
func (g *realistic) claim() string {
	return g.pick("sub", "n", "m", "l", "o", "a.b", "roles", "l[0]", "l[1]", "o.a", "exp", "scope", "roles[0]", "o[role]", "l[claims.n]", "t", "a")
}

// leaf is a value of the request that needs no evaluation of its own, or a constant.
func (g *realistic) leaf() string {
	return g.pick("role", "user", "claims.sub", "claims.n", "claims.m", "claims.l", "claims.o", "claims.l[0]", "http.path", "parsed[0]", `http.headers["x-tenant"]`, "claims.a.b", "1", "1.0", `"admin"`, "http.method", "claims.t", "claims.roles", "claims.exp", "now")
}

// leafcond is a condition about a value.
func (g *realistic) leafcond(x string) string {
	switch g.IntN(8) {
	case 0:
		return x + " == " + g.leaf()
	case 1:
		return fmt.Sprintf("startswith(%s, %s)", x, g.pick(`"a"`, `"/"`, "role", `"r"`))
	case 2:
		return x + g.pick(" > ", " < ", " >= ", " != ") + g.leaf()
	case 3:
		return x + " in " + g.pick("claims.roles", "claims.l", "claims.o", "{1, 2}", `["admin", 1]`, "data.levels", "ps", `{"a": "admin"}`)
	case 4:
		return "not " + x + " == " + g.leaf()
	case 5:
		return fmt.Sprintf("f1(%s) == %s", x, g.leaf())
	case 6:
		return fmt.Sprintf("%s(%s)", g.pick("is_string", "is_number", "is_null", "is_array", "is_object"), x)
	}
	return x + " != \"zz\""
}

// coll is a collection, of the request or of the data.
func (g *realistic) coll() string {
	x := g.name()
	return g.pick("claims.roles", "claims.l", "claims.o", "parsed", "data.roles[role]", "data.users[user].tenants", "http.headers", "claims", "ps", "po", "data.public", "role", "claims.sub",
		"split(claims.scope, \" \")", fmt.Sprintf("{%s | some %s in claims.l}", x, x), "data.levels", "object.keys(claims.o)", "http.path", "claims.t", "data.rows", "data.table", `{"admin", role}`, "[role, user, claims.n]", "claims.l[0]", "numbers.range(0, claims.n)")
}

// clock is the time in a form.
func (g *realistic) clock() string {
	return g.pick("now", "time.now_ns()", "time.now_ns() / 1000000000", "now + 1", "now - 1", "floor(now)", "time.now_ns() + 1000000000", "round(now)")
}

// cond is a condition.
func (g *realistic) cond(depth int) string {
	switch g.IntN(24) {
	case 0:
		return g.pick("claims.exp", "object.get(claims, \"exp\", 0)", "to_number(http.headers[\"x-exp\"])", "claims.n", "claims.nbf", "claims.l[_]") + g.pick(" > ", " >= ", " < ", " <= ", " != ", " == ") + g.clock()
	case 1:
		return g.clock() + g.pick(" > ", " >= ", " < ", " <= ", " != ", " == ") + g.pick("claims.exp", "claims.nbf", "claims.exp * 1000000000", "claims.exp + 5", "claims.iat + 60", "object.get(claims, \"exp\", role)")
	case 2:
		return g.val() + " in " + g.coll()
	case 3:
		return g.leaf() + ", " + g.val() + " in " + g.coll()
	case 4, 5:
		return g.val() + g.pick(" == ", " != ", " == ", " < ", " >= ", " == ") + g.val()
	case 6:
		x := g.name()
		return fmt.Sprintf("some %s in %s; %s", x, g.coll(), g.leafcond(x))
	case 7:
		x := g.name()
		return fmt.Sprintf("every %s in %s { %s }", x, g.coll(), g.leafcond(x))
	case 8:
		if depth > 0 {
			c := g.cond(0)
			if !strings.Contains(c, ";") && !strings.HasPrefix(c, "not ") && !strings.HasPrefix(c, "every") && !strings.HasPrefix(c, "some") && !strings.Contains(c, ":=") && !strings.HasPrefix(c, "v") && !strings.Contains(c, "[_") && !strings.HasPrefix(c, "[") {
				return "not " + c
			}
		}
		return "not " + g.val()
	case 9:
		return fmt.Sprintf("regex.match(%s, %s)", g.pick("`^/a`", "`^[a-z]+$`", "data.patterns[_]", `sprintf("^/%s", [role])`, `concat("", ["^", role])`, "claims.sub", "`^a.*e$`"), g.pick("http.path", "role", "user", "claims.sub", "claims.l[0]", "claims.scope"))
	case 10:
		return fmt.Sprintf("glob.match(%s, %s, %s)", g.pick("data.globs[_]", `"/a/*"`, `concat("", ["/", role, "/**"])`, "claims.sub", `"a*"`), g.pick(`["/"]`, "[]", "null"), g.pick("http.path", "role", "user"))
	case 11:
		return g.pick("startswith", "endswith", "contains") + "(" + g.pick("http.path", "role", "claims.sub", "claims.scope", g.val()) + ", " + g.pick(`"/a"`, `"a"`, `""`, "role", "user", "data.public[_]", `concat("", ["/", role])`) + ")"
	case 12:
		return g.pick("some g in data.grants; g.role == role; g.method == http.method; startswith(http.path, g.prefix)",
			"data.grants[i].role == role; data.grants[i].method == http.method",
			"some g in data.grants; g.role in claims.roles; startswith(http.path, g.prefix)",
			"some r in claims.roles; some p in data.roles[r]; p == perm",
			"some r in claims.roles; perm in data.roles[r]",
			"data.rows[_] = [user, q]; q > 0",
			"[user, q] in data.rows",
			"data.users[q].role == role; q == user",
			"data.users[q].level == claims.n",
			`parsed = ["a", q]; q == role`,
			`[q, "b"] = parsed; q == role`,
			`parsed = ["a", "b", q]; q != role`,
			`[_, q, _] = io.jwt.decode(token); q.sub == role`,
			`{"a": q} = claims.o; q == role`,
			`claims.l = [q, _]; q == claims.n`,
			`q := claims.l[i]; i > 0; q == claims.n`,
			`walk(claims.o, [p, v]); v == role`,
			`claims.o[k] == role; k != "a"`,
			`claims.l[i] == role; i == claims.n`,
			`http.headers[k] == user; startswith(k, "x-")`,
			`claims == {"sub": user, "n": 1}`,
			`claims.o == {"a": role}`, `claims.l == [1, 2]`, `{x | some x in claims.l} == {1, 2}`, `{"a": claims.n} == claims.o`, `[claims.n, role] == claims.l`, `count({claims.n, claims.m, 1}) == 1`, `{claims.n: 1} == {1: claims.m}`, `[claims.n] < [claims.m]`,
			`data.roles[role] == claims.roles`, `{p | some p in data.roles[role]} == {p | some p in claims.roles}`,
			`startswith(http.path, sprintf("/%s/", [user]))`, `claims.n == 1; claims.m == 1.0`, `json.marshal(claims.n) == "1"`, `sprintf("%v", [claims.n]) == "1"`)
	case 13:
		return "ch1"
	case 14:
		return g.pick("k1 == "+g.leaf(), "k2 == "+g.leaf(), "k3", "k1", "k2 != \"q\"; f2(1, "+g.leaf()+") == 1", "k3; f3("+g.leaf()+")", "count(kp) > 1", "kr == "+g.leaf(), "sprintf(\"%v\", [kr]) == \"1\"", "sprintf(\"%v\", [kp["+g.leaf()+"]]) == \"1\"", "sprintf(\"%v\", [k2]) == \"1\"", "ch2", "not ch2", "ch1 == true", "ch3", "not ch3")
	case 15:
		return fmt.Sprintf("ps[%s]", g.leaf())
	case 16:
		return fmt.Sprintf("po[%s] == %s", g.leaf(), g.leaf())
	case 17:
		return fmt.Sprintf("count(%s) %s %s", g.coll(), g.pick("==", ">", "<", "!="), g.pick("0", "1", "2", "3", "claims.n", "17"))
	case 18:
		return "http.method == " + g.pick(`"GET"`, `"POST"`, "role", "claims.sub")
	case 19:
		return fmt.Sprintf("f3(%s)", g.val())
	case 20:
		x := g.name()
		return fmt.Sprintf("%s := %s; %s", x, g.val(), g.leafcond(x))
	case 21:
		return g.leafcond(g.val())
	case 22:
		return g.pick("{ "+g.leafcond(g.leaf())+" } or { "+g.leafcond(g.leaf())+" }", "f4("+g.leaf()+") == f4("+g.leaf()+")", "f2("+g.leaf()+","+g.leaf()+") == f2("+g.leaf()+","+g.leaf()+")", "ps == {x | some x in claims.roles}", "count(po) > 1", "some k, v in po; v == role; k != user", "some k in ps; "+g.leafcond("k"), "po2[role][_] == user", "po2[q][0] == role", "some q in claims.l; ps[q]", "some q in claims.roles; po[q] == role")
	}
	return g.val()
}

// body is the body of a rule.
func (g *realistic) body(n, depth int) string {
	out := make([]string, 1+g.IntN(n))
	for i := range out {
		c := g.cond(depth)
		id := g.name()
		for _, l := range []string{"q", "i", "k", "v", "p", "g", "r"} {
			c = renameLocal(c, l, l+id)
		}
		out[i] = c
	}
	return strings.Join(out, "\n\t")
}

// renameLocal gives a variable of a condition another name.
func renameLocal(c, l, to string) string {
	binds := strings.Contains(c, "some "+l+" ") || strings.Contains(c, "some "+l+",") || strings.Contains(c, ", "+l+" in") || strings.Contains(c, l+" :=") || strings.Contains(c, "["+l+"]") || strings.Contains(c, ", "+l+"]") || strings.Contains(c, "["+l+",") || strings.Contains(c, ": "+l+"}") || strings.Contains(c, ", "+l+",")
	if !binds {
		return c
	}
	isw := func(b byte) bool {
		return b == '_' || b == '"' || b == '.' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	var out strings.Builder
	for i := 0; i < len(c); i++ {
		if c[i] == l[0] && (i == 0 || !isw(c[i-1])) && (i+1 == len(c) || !isw(c[i+1]) || c[i+1] == '.') {
			out.WriteString(to)
		} else {
			out.WriteByte(c[i])
		}
	}
	return out.String()
}

// policy is a whole module.
func (g *realistic) policy() string {
	var b strings.Builder
	b.WriteString("package envoy.authz\nimport rego.v1\nhttp := input.attributes.request.http\nparsed := input.parsed_path\n")
	b.WriteString(g.pick("now := time.now_ns() / 1000000000\n", "now := floor(time.now_ns() / 1000000000)\n", "now := time.now_ns() / 1000000000\n"))
	b.WriteString(g.pick("token := substring(http.headers.authorization, 7, -1)\n", "token := trim_prefix(http.headers.authorization, \"Bearer \")\n", "token := split(http.headers.authorization, \" \")[1]\n", "token := t if { [_, t] := split(http.headers.authorization, \" \") }\n"))
	b.WriteString(g.pick("claims := io.jwt.decode(token)[1]\n", "claims := c if { [_, c, _] := io.jwt.decode(token) }\n", "claims := c if { io.jwt.decode(token, [_, c, _]) }\n", "default claims := {}\nclaims := io.jwt.decode(token)[1]\n"))
	b.WriteString(g.pick("role := http.headers[\"x-role\"]\n", "role := claims.sub\n", "role := claims.roles[0]\n", "default role := \"guest\"\nrole := http.headers[\"x-role\"]\n", "role := data.users[claims.sub].role\n"))
	b.WriteString(g.pick("user := claims.sub\n", "user := object.get(claims, \"sub\", \"anon\")\n", "default user := \"nobody\"\nuser := claims.sub if claims.n == 1\n", "user := http.headers[\"x-user\"]\n"))
	b.WriteString("perm := {\"GET\": \"read\", \"POST\": \"write\"}[http.method]\nwalkc := [p | walk(claims.o, [p, _])]\n")
	// functions: only use leafconds
	fmt.Fprintf(&b, "f1(x) := %s\n", g.pick("json.marshal(x)", "sprintf(\"%v\", [x])", "[x, role]", "x", "count(x)", "{x: 1}", "lower(x)", "object.get(claims, x, 1)", "y if { y := data.users[x].role }", "data.table[x]"))
	fmt.Fprintf(&b, "f2(x, y) := %s if { %s } else := %s if { %s }\n", g.pick("1", "x", "y", "[x, y]"), g.leafcond0("x"), g.pick("2", "y", "x"), g.leafcond0("y"))
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "else := 3\n")
	}
	fmt.Fprintf(&b, "f3(x) if { %s }\nf3(x) if { %s; %s }\n", g.leafcond0("x"), g.leafcond0("x"), g.leafcond0("http.path"))
	fmt.Fprintf(&b, "%sf4(\"admin\") := %s\nf4(1) := 2\nf4(x) := %s if { is_string(x); x != \"admin\" }\nf4([x, y]) := x if { %s }\n", g.pick("", "default f4(_) := 0\n"), g.pick("1", "role", "claims.n"), g.pick("3", "x", "user"), g.leafcond0("y"))
	fmt.Fprintf(&b, "ps contains x if { some x in %s; %s }\n", g.pick("claims.roles", "claims.l", "data.roles[role]", "parsed", "claims.o"), g.leafcond0("x"))
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "ps contains %s if { %s }\n", g.leaf(), g.leafcond0(g.leaf()))
	}
	fmt.Fprintf(&b, "k1 := f4(%s)\nk2 := f2(%s, %s)\nk3 if f3(\"admin\")\n", g.pick("1", `"admin"`, "1.0", `["a", 1]`), g.pick("1", "1.0", `"admin"`), g.pick("1", "1.0", `"a"`))
	fmt.Fprintf(&b, "kp[x] := x if { some x in %s; x > 0 }\nkr := kp[1]\n", g.pick("[1.0, 2]", "[1, 2]", "data.nums"))
	if g.IntN(3) == 0 {
		fmt.Fprintf(&b, "ps contains \"admin\" if f3(%s)\n", g.pick(`"admin"`, "role"))
	}
	fmt.Fprintf(&b, "po[x] := %s if { some x in %s; %s }\n", g.pick("1", "json.marshal(x)", "role", "claims.n", "x"), g.pick("claims.roles", "claims.l", "parsed"), g.leafcond0("x"))
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "po[%s] := %s if { %s }\n", g.pick("user", `"admin"`, "claims.n", "1"), g.pick("1", "role"), g.leafcond0(g.leaf()))
	}
	fmt.Fprintf(&b, "po2[g.role] := ms if { some g in data.grants; ms := [m | some h in data.grants; h.role == g.role; m := %s]; %s }\n", g.pick("h.method", "h.prefix", "[h.method, user]"), g.pick("true", "g.method == http.method", "g.role in claims.roles"))
	fmt.Fprintf(&b, "%sch3 if { %s }\n", g.pick("", "default ch3 := false\n"), g.leafcond0(g.leaf()))
	fmt.Fprintf(&b, "ch1base if { %s }\n", g.chcond())
	fmt.Fprintf(&b, "%sch1 := %s if { %s }\n", g.pick("", "default ch1 := false\n", "default ch1 := \"none\"\n"), g.pick("true", "true", "role", "user"), g.chcond())
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "else := %s if { ch1base; %s }\n", g.pick("1", "claims.n", `"e"`), g.chcond())
	}
	fmt.Fprintf(&b, "ch2 if { %s; %s }\n", g.chcond(), g.pick("ch1", "not ch1", "ch3", "true", "ps[role]", "count(ps) > 0"))
	switch g.IntN(3) {
	case 0:
		b.WriteString("default allow := false\n")
		for range 1 + g.IntN(3) {
			fmt.Fprintf(&b, "allow if {\n\t%s\n}\n", g.body(4, 1))
		}
	case 1:
		fmt.Fprintf(&b, "%sallow := {\"allowed\": true, \"headers\": {\"x-v\": sprintf(\"%%v\", [%s]), \"x-r\": role}} if {\n\t%s\n} else := {\"allowed\": false, \"http_status\": %s, \"body\": sprintf(\"%%v\", [%s])} if {\n\t%s\n} else := {\"allowed\": %s, \"headers\": {\"x-u\": user}} if {\n\t%s\n}\n", g.pick("", "default allow := false\n"), g.val(), g.body(3, 1), g.pick("401", "429", "claims.n", "400 + claims.n"), g.val(), g.body(3, 1), g.pick("true", "false"), g.body(3, 1))
	case 2:
		fmt.Fprintf(&b, "deny contains msg if { %s\n\tmsg := %s }\ndeny contains \"b\" if { %s }\nallow := {\"allowed\": count(deny) == 0, \"body\": concat(\",\", [sprintf(\"%%v\", [d]) | some d in deny]), \"headers\": hs}\nhs[k] := v if { some k, v in {\"x-a\": role, \"x-b\": sprintf(\"%%v\", [claims.n])}; %s }\n", g.body(2, 1), g.pick(`"a"`, "role", "claims.n", g.val()), g.body(2, 1), g.leafcond0("k"))
	}
	return b.String()
}

// leafcond0 is leafcond without what uses the function itself.
func (g *realistic) leafcond0(x string) string {
	for {
		c := g.leafcond(x)
		if !strings.Contains(c, "ps") && !strings.Contains(c, "f1(") {
			return c
		}
	}
}

// chcond is a condition of a rule in a chain of rules, which does not use the chain.
func (g *realistic) chcond() string {
	for {
		c := g.cond(1)
		if !strings.Contains(c, "ch1") && !strings.Contains(c, "ch2") {
			id := g.name()
			for _, l := range []string{"q", "i", "k", "v", "p", "g", "r"} {
				c = renameLocal(c, l, l+id)
			}
			return c
		}
	}
}

// jv is a value of a claim, as JSON.
func (g *realistic) jv(d int) string {
	switch g.IntN(12 + d) {
	case 0, 1:
		return g.pick(`"admin"`, `"user"`, `"alice"`, `"bob"`, `"a"`, `""`, `"1"`, `"t1"`, `"x"`, `"/a"`, `"guest"`, `"read"`)
	case 2, 3, 4:
		return g.num()
	case 5:
		return g.pick("null", "true", "false", "[]", "{}")
	case 6, 7, 8:
		return g.pick(`"admin"`, `"user"`, "1", `"alice"`)
	}
	if d <= 0 {
		return g.pick(`"admin"`, "1", "2")
	}
	if g.IntN(2) == 0 {
		return g.arr(d - 1)
	}
	return g.obj(d - 1)
}

// num is a number in one of the ways to write it.
func (g *realistic) num() string {
	return g.pick("1", "1", "1.0", "1e0", "10e-1", "0", "-0", "0.0", "2", "2.0", "3", "1e400", "9007199254740993", "9007199254740992", "9007199254740993.0", "-1", "1.5", "0.1", "17", fmt.Sprint(epoch), fmt.Sprint(epoch)+".5", "1.7e9", "1E0", "1e-400")
}

// arr is an array.
func (g *realistic) arr(d int) string {
	n := g.IntN(4)
	if g.IntN(10) == 0 {
		n = 15 + g.IntN(5)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = g.jv(d)
	}
	return "[" + strings.Join(out, ",") + "]"
}

// obj is an object.
func (g *realistic) obj(d int) string {
	var out []string
	for _, k := range []string{"a", "admin", "1", "x", "b"} {
		if g.IntN(2) == 0 {
			out = append(out, fmt.Sprintf("%q:%s", k, g.jv(d)))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// token is a token that nobody has signed.
func (g *realistic) token() string {
	if g.IntN(15) == 0 {
		return g.pick("", "x.y.z", "a.b", "eyJ9.e30.x")
	}
	var f []string
	add := func(k, v string, p int) {
		if g.IntN(100) < p {
			f = append(f, fmt.Sprintf("%q:%s", k, v))
		}
	}
	add("sub", g.pick(`"alice"`, `"bob"`, `"admin"`, `"1"`, g.jv(0)), 92)
	add("n", g.pick(g.num(), g.num(), "1", "1.0", g.jv(1)), 85)
	add("m", g.pick(g.num(), g.num(), "1", g.jv(1)), 80)
	add("l", g.pick(g.arr(1), g.arr(1), "[1,2]", g.jv(2)), 85)
	add("o", g.pick(g.obj(1), g.obj(1), `{"a":1.0}`, g.jv(2)), 85)
	add("a", g.pick(`{"b":"admin"}`, `{"b":1.0}`, g.jv(2)), 80)
	add("roles", g.pick(`["admin"]`, `["user","admin"]`, `["guest"]`, g.arr(0), g.jv(1)), 90)
	add("exp", g.pick(fmt.Sprint(epoch), fmt.Sprint(epoch), fmt.Sprint(epoch)+".0", "1.7e9", fmt.Sprint(epoch)+".5", fmt.Sprintf("%q", fmt.Sprint(epoch)), "null", fmt.Sprint(epoch+1), "1e400", "true", "9007199254740993"), 85)
	add("nbf", g.pick(fmt.Sprint(epoch), fmt.Sprint(epoch-1)), 80)
	add("iat", g.pick(fmt.Sprint(epoch-60), "1"), 50)
	add("scope", g.pick(`"read write"`, `"admin x"`, `""`, "1"), 80)
	add("t", g.jv(2), 80)
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte("{"+strings.Join(f, ",")+"}")) + ".c2ln"
}

// request is a request with one of some tokens.
func (g *realistic) request(tokens []string) *authv3.CheckRequest {
	h := map[string]string{}
	if g.IntN(20) > 0 {
		h["authorization"] = "Bearer " + tokens[g.IntN(len(tokens))]
	}
	set := func(k string, vs ...string) {
		if g.IntN(6) > 0 {
			h[k] = g.pick(vs...)
		}
	}
	set("x-role", "admin", "user", "guest", "1", "a", "Admin")
	set("x-user", "alice", "bob", "1", "admin")
	set("x-tenant", "t1", "t2", "1", "admin", "0")
	set("x-n", "1", "1.0", "1e0", "x", "2", "-0")
	set("x-exp", fmt.Sprint(epoch), fmt.Sprint(epoch+1), fmt.Sprint(epoch)+".0", "x", "1.7e9")
	return checktest.HTTP(&authv3.AttributeContext_HttpRequest{
		Method: g.pick("GET", "GET", "POST", "PUT"), Path: g.pick("/a", "/a/b", "/a/b/c", "/c", "/", "/admin/x", "/alice/x", "/health", "/a/admin", "/a%2Fb?x=1", "/b/a/1/t1", "/read"), Headers: h,
	})
}

// moments are around the times in the tokens.
var moments = []time.Duration{
	-2 * time.Second, -time.Second, -time.Second + 1, -1, 0, 1, 500_000_000, 500_000_001, time.Second, time.Second + 1, 5 * time.Second, 61 * time.Second,
}

// realisticPolicy compiles a random policy, and puts a cache in front of it; nil if it does not compile.
func realisticPolicy(t *testing.T, g *realistic) (module string, compiled *authz.Policy, cached *cache.Policy) {
	t.Helper()
	data, err := structpb.NewStruct(realisticData)
	if err != nil {
		t.Fatal(err)
	}
	module = g.policy()
	compiled, err = authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": module}, Data: data,
	})
	if err != nil {
		return module, nil, nil // a rule that uses itself, and the like
	}
	cached = cache.NewPolicy(compiled)
	cached.Contradicted = func(c *cache.Contradiction) { t.Error(c) }
	if err := cached.SetSize(1000); err != nil {
		t.Fatal(err)
	}
	return module, compiled, cached
}

// TestRealisticPolicies decides random requests in random order, each twice and some at another time, as OPA
// alone decides them, whatever came before.
func TestRealisticPolicies(t *testing.T) {
	policies, requests, found := testkit.Cases(120), 40, 0
	for seed := range uint64(policies) {
		g := &realistic{Rand: rand.New(rand.NewPCG(seed, 77))}
		module, compiled, cached := realisticPolicy(t, g)
		if compiled == nil {
			continue
		}
		tokens := make([]string, 12)
		for i := range tokens {
			tokens[i] = g.token()
		}
		messages := make([]*authv3.CheckRequest, requests)
		for i := range messages {
			messages[i] = g.request(tokens)
		}
		for range 2 {
			for _, i := range g.Perm(requests) {
				r := requestOf(t, messages[i], time.Unix(epoch, 0).Add(moments[g.IntN(len(moments))]))
				if _, outcome := cached.Find(t.Context(), r); outcome == cache.Hit {
					found++
				}
				got, want := cached.Decide(t.Context(), r, authz.Conditions{}), compiled.Decide(t.Context(), r, authz.Conditions{Plain: true})
				if !authz.SameDecision(got, want) || t.Failed() {
					t.Fatalf("seed %d: got %+v, OPA says %+v\n%v\n%s", seed, got, want, messages[i], module)
				}
			}
		}
	}
	if found < policies {
		t.Errorf("only %d decisions were found", found)
	}
}
