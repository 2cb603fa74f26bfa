# What may be done at all: the first recipe of the lock.
package shop.methods

default allow := {"allowed": false, "http_status": 405, "body": "The shop does not do this.", "headers": {"allow": "GET, POST"}}

allow := true if input.attributes.request.http.method in {"GET", "POST"}
