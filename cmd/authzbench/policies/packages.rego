# 60 prefixes of paths, five in each of twelve packages, of which some are for methods that change nothing. The
# packages are made for the run (areaModules).
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	data.areas.area_00.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_01.within
}

allow if {
	data.areas.area_02.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_03.within
}

allow if {
	data.areas.area_04.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_05.within
}

allow if {
	data.areas.area_06.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_07.within
}

allow if {
	data.areas.area_08.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_09.within
}

allow if {
	data.areas.area_10.within
	http.method in {"GET", "HEAD"}
}

allow if {
	data.areas.area_11.within
}
