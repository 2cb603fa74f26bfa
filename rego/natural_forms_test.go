package rego_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// naturalForms are modules in forms that people write, with what they show.
var naturalForms = map[string]string{
	"a function without arguments": "package p\nclaims() := input.c if input.c\nallow if claims().role == \"admin\"",
	"a function without arguments, with an else": `package p
claims() := input.c if input.big else := {"role": "admin"}
allow if claims().role == "admin"`,
	"a function without arguments, with a default": `package p
default claims() := {"role": "admin"}
claims() := input.c if input.big
allow if claims().role == "admin"`,
	"rules by constant keys": `package p
route["GET"] if input.m == "GET"
route["PUT"] if input.c.role == "admin"
allow if route[input.m]`,
	"rules by constant keys that are values": `package p
permissions["admin"] := ["GET", "PUT"]
permissions["guest"] := ["GET"]
allow if input.m in permissions[input.c.role]`,
	"sets by constant keys": `package p
allowed["admin"] contains "PUT"
allowed["admin"] contains input.extra
allowed["guest"] contains "GET"
allow if input.m in allowed[input.c.role]`,
	"rules by constant keys, each of them": `package p
check["a"] if input.m == "GET"
check["b"] if input.big
allow := [k | some k; check[k]]`,
	"in with a variable and a constant": `package p
allow if { some rule in [{"m": "*"}, {"m": "GET"}]; rule.m in {"*", input.m} }`,
	"in with a variable and a constant, indexed": `package p
allow if input.m in ["GET", input.extra]
allow if input.c.role in {"admin", input.extra}`,
	"in with variables, negated": "package p\nallow if not input.m in {\"DELETE\", input.extra}",
	"in with a rule that is constant": `package p
admin := "admin"
allow if input.c.role in {admin, "root"}`,
	"in with an object": "package p\nallow if input.m in {\"a\": input.extra, \"b\": \"GET\"}",
	"in of a constant":  "package p\nallow if 1 in {\"a\": input.x, \"b\": 2}",
	"in with a value":   "package p\nallow := input.m in {\"GET\", input.extra}",
	"the whole input":   "package p\nadmin(i) if i.c.role == \"admin\"\nallow if admin(input)",
	"the whole input, by a name": `package p
admin(i, r) if i.c.role == r
allow if admin(input, "admin")
allow if admin(input, "root")`,
	"a default that is a comprehension": `package p
default roles := [r | some r in data.c]
roles := [input.c.role] if input.big
allow := roles`,
	"a default that is a comprehension, of the input": `package p
default roles := {m | some m in ["GET", "PUT"]; m == input.m}
roles := {input.extra} if input.big
allow if input.m in roles`,
	"two keys in a name": `package p
perms[role][m] := true if { some role in ["admin", "guest"]; some m in ["GET", input.extra] }
allow if perms[input.c.role][input.m]`,
	"two keys in a name, each of them": `package p
perms[role][m] := n if { some role in ["admin", "guest"]; some n, m in ["GET", input.extra] }
allow := {[r, m, n] | some r, m; n := perms[r][m]}`,
	"sets by keys": `package p
grants[r.role] contains r.m if some r in [{"role": "admin", "m": "PUT"}, {"role": "admin", "m": "GET"}, {"role": "guest", "m": input.extra}]
allow if input.m in grants[input.c.role]`,
	"rules below a rule": `package p
headers["x-a"] := input.extra
headers[k] := v if some k, v in {"x-b": input.m, "x-c": "c"}
allow := headers`,
	"rules below a rule, with one of two values": `package p
headers["x-b"] := input.extra
headers[k] := v if some k, v in {"x-b": input.m, "x-c": "c"}
allow := headers["x-b"]`,
	"objects below a rule": `package p
r[k] := {"a": 1} if some k in ["x", input.extra]
r["GET"]["b"] := 2
allow := r[input.m]`,
	"a value at a key of sets": `package p
r[k] contains "PUT" if some k in ["y", input.extra]
r["x"] := {"GET"} if input.big
allow := r`,
	"a set at a key of values": `package p
r[k] := ["GET"] if some k in ["y", input.extra]
r["x"] contains "PUT" if input.big
allow := r`,
	"a value at a key of objects": `package p
r[k].a := 1 if some k in ["y", input.extra]
r["x"] := {"b": 2} if input.big
allow := r`,
	"an object at a key of sets": `package p
r[k] contains "PUT" if some k in ["y", input.extra]
r["x"].a := 1 if input.big
allow := r`,
	"keys of one hash": `package p
r[k].n := n if some n, k in [1, true, input.extra]
allow := r`,
	"rules with several keys, of which one is a name of the data": `package p
r[k].n := v if some k, v in data.d.o
r[k].n := v if v := data.d.o[k]
allow := r[input.extra]`,
	"a number in an unusual form as an argument": `package p
f(x) := json.marshal(x)
allow := f(input.m) if input.extra != "x"
allow := f(data.n) if input.extra == "x"`,
	"two numbers as arguments": `package p
f(x) := json.marshal(x)
allow := [f(input.m), f(input.extra)]`,
	"two numbers as arguments, and one of the policy": `package p
f(x) := json.marshal(x)
r := f(19.9)
allow := [r, f(input.extra), f(input.m)]`,
	"two numbers as arguments, and one of the policy in an unusual form": `package p
f(x, _) := json.marshal(x)
r := f(19.90, "a")
allow := [f(input.m, "a"), f(input.extra, "b"), r]`,
	"one number in two forms as the value of a rule": `package p
r := input.m
r := input.extra
allow := json.marshal(r)`,
	"an element of a set": `package p
s contains "GET" if input.big
s contains input.extra
allow := s[input.m]`,
	"three numbers as arguments, two of them by one name": `package p
f(x) := json.marshal(x)
allow := [f(input.m), f(input.extra), f(input.extra)]`,
	"one number after the other as an argument": `package p
f(x) := json.marshal(x)
allow := [y | some x in input.m; y := f(x)]`,
	"two numbers in arrays as arguments": `package p
f(x) := json.marshal(x)
allow := [f([input.m]), f([input.extra])]`,
	"object.get of the input": `package p
allow if object.get(input, "m", "GET") == "GET"`,
	"object.get of the input, by a path": `package p
allow if object.get(input, ["c", "role"], "guest") == "admin"`,
	"object.get of the input, by a path with a key that is no name": `package p
allow := [object.get(input, ["c", true], "none"), object.get(input, ["c", -1], "none")]`,
	"object.get of the input, in another one": `package p
allow := object.get(object.get(input, "c", {}), "role", "none")`,
	"object.get of the input, with a value of it": `package p
allow := object.get(input, "big", input.extra)`,
	"object.get of the input, as a condition": "package p\nallow if object.get(input, \"big\", false)",
	"names and values": `package p
allow if { some k, v in input.c; startswith(k, "ro"); v == "admin" }`,
	"names of some values": `package p
allow := {k | some k, v in input.c; v == "admin"}`,
	"a name of a value": `package p
allow if { some k; input.c[k] == "admin"; k == "role" }`,
	"every name and value": `package p
allow if { every k, v in input.c { v != "root"; k == "role" } }`,
	"one of some values":                  "package p\nallow if input.m[_] == \"GET\"",
	"one of some values, of another part": "package p\nallow if input.m[_] == input.extra",
	"a rule as an argument": `package p
claims := input.c
admin(c) if c.role == "admin"
allow if { c := claims; admin(c) }
allow if admin(claims)`,
}

// TestNaturalForms evaluates each of them, for inputs in which what it asks for is there, is another one, or is
// not there.
func TestNaturalForms(t *testing.T) {
	for name, module := range naturalForms {
		t.Run(name, func(t *testing.T) {
			c := &comparison{T: t}
			c.natural(module)
			if c.compiled == 0 || c.undecided > c.evaluated/2 {
				t.Errorf("%d of %d evaluations are left to OPA; %d policies are evaluated", c.undecided, c.evaluated, c.compiled)
			}
		})
	}
}

// natural compares a policy for the inputs.
func (c *comparison) natural(module string) {
	ours, opa, done := c.both(module)
	defer done()
	if ours == nil {
		return
	}
	c.compiled++
	for _, m := range []any{nil, "GET", "PUT", "*", 7, json.Number("1.0"), json.Number("19.90"), []any{"GET"}, []any{json.Number("1"), json.Number("1.0")}} {
		for _, role := range []any{nil, "admin", "guest", "root", false} {
			for _, extra := range []any{nil, "GET", "PUT", "x", 1, json.Number("19.9")} {
				for _, big := range []any{nil, true, false} {
					document := map[string]any{"x": extra}
					for key, value := range map[string]any{"m": m, "extra": extra, "big": big} {
						if value != nil {
							document[key] = value
						}
					}
					if role != nil {
						document["c"] = map[string]any{"role": role}
					}
					if !c.same(ours, "p/allow", opa, document) {
						c.Fatalf("%s\ninput %v", module, fmt.Sprint(document))
					}
				}
			}
		}
	}
}
