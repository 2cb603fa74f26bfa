# 10,000 members, and 200 rules that are tried one by one.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	[_, claims, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
	member := data.members[claims.sub]
	some rule in data.rules
	rule.method == http.method
	startswith(http.path, rule.prefix)
	some group in member.groups
	group in rule.groups
}
