# Reading is allowed at all times, other methods during business hours in UTC.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	http.method == "GET"
	not input.parsed_path[2] in {"reports", "users"}
}

allow if {
	during_business_hours
	not startswith(http.path, "/api/v1/users/")
}

during_business_hours if {
	not time.weekday(time.now_ns()) in {"Saturday", "Sunday"}
	[hour, _, _] := time.clock(time.now_ns())
	hour >= 8
	hour < 18
}
