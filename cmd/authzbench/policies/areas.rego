# 60 prefixes of paths in twelve rules, of which some are for methods that change nothing.
package envoy.authz

import input.attributes.request.http

default allow := false

area_00 if {
	some prefix in ["/api/v1/catalog/", "/area00/v1/", "/area00/v2/", "/area00/v3/", "/area00/v4/"]
	startswith(http.path, prefix)
}

area_01 if {
	some prefix in ["/api/v1/orders/", "/area01/v1/", "/area01/v2/", "/area01/v3/", "/area01/v4/"]
	startswith(http.path, prefix)
}

area_02 if {
	some prefix in ["/area02/v0/", "/area02/v1/", "/area02/v2/", "/area02/v3/", "/area02/v4/"]
	startswith(http.path, prefix)
}

area_03 if {
	some prefix in ["/api/v1/stock/", "/area03/v1/", "/area03/v2/", "/area03/v3/", "/area03/v4/"]
	startswith(http.path, prefix)
}

area_04 if {
	some prefix in ["/api/v1/reviews/", "/area04/v1/", "/area04/v2/", "/area04/v3/", "/area04/v4/"]
	startswith(http.path, prefix)
}

area_05 if {
	some prefix in ["/area05/v0/", "/area05/v1/", "/area05/v2/", "/area05/v3/", "/area05/v4/"]
	startswith(http.path, prefix)
}

area_06 if {
	some prefix in ["/api/v1/refunds/", "/area06/v1/", "/area06/v2/", "/area06/v3/", "/area06/v4/"]
	startswith(http.path, prefix)
}

area_07 if {
	some prefix in ["/api/v1/reports/", "/area07/v1/", "/area07/v2/", "/area07/v3/", "/area07/v4/"]
	startswith(http.path, prefix)
}

area_08 if {
	some prefix in ["/area08/v0/", "/area08/v1/", "/area08/v2/", "/area08/v3/", "/area08/v4/"]
	startswith(http.path, prefix)
}

area_09 if {
	some prefix in ["/api/v1/invoices/", "/area09/v1/", "/area09/v2/", "/area09/v3/", "/area09/v4/"]
	startswith(http.path, prefix)
}

area_10 if {
	some prefix in ["/area10/v0/", "/area10/v1/", "/area10/v2/", "/area10/v3/", "/area10/v4/"]
	startswith(http.path, prefix)
}

area_11 if {
	some prefix in ["/area11/v0/", "/area11/v1/", "/area11/v2/", "/area11/v3/", "/area11/v4/"]
	startswith(http.path, prefix)
}

allow if {
	area_00
	http.method in {"GET", "HEAD"}
}

allow if {
	area_01
}

allow if {
	area_02
	http.method in {"GET", "HEAD"}
}

allow if {
	area_03
}

allow if {
	area_04
	http.method in {"GET", "HEAD"}
}

allow if {
	area_05
}

allow if {
	area_06
	http.method in {"GET", "HEAD"}
}

allow if {
	area_07
}

allow if {
	area_08
	http.method in {"GET", "HEAD"}
}

allow if {
	area_09
}

allow if {
	area_10
	http.method in {"GET", "HEAD"}
}

allow if {
	area_11
}
