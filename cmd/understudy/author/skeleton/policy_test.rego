package envoy.authz_test

import data.envoy.authz

request(method, path) := {"parsed_path": path, "attributes": {"request": {"http": {"method": method}}}}

of(user, value) := object.union(value, {"attributes": {"metadata_context": {"filter_metadata": {"envoy.filters.http.jwt_authn": {"jwt_payload": {"sub": user}}}}}})

test_anybody_reads_what_is_public if authz.allow == true with input as request("GET", ["docs", "api"])

test_nobody_writes_what_is_public if not authz.allow == true with input as request("POST", ["docs", "api"])

test_a_user_has_their_own if authz.allow == true with input as of("ada", request("PUT", ["users", "ada"]))

test_a_user_has_nothing_of_others if not authz.allow == true with input as of("eve", request("PUT", ["users", "ada"]))
