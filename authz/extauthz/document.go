package extauthz

import (
	"maps"
	"slices"

	"understudy/rego"
)

// document is the input document as a view has it: what document in input.go makes
// of a request.
var document = objectPart{always, map[string]part{
	"attributes": objectPart{always, map[string]part{
		"source":      peerPart(func(v *view) *peer { return &v.source }),
		"destination": peerPart(func(v *view) *peer { return &v.destination }),
		"request": objectPart{func(v *view) bool { return v.hasRequest }, map[string]part{
			"time": messagePart{func(v *view) message { return v.time }, decodeTime},
			"http": objectPart{func(v *view) bool { return v.http.present }, map[string]part{
				"id":       textPart(func(v *view) string { return v.http.id }),
				"method":   textPart(func(v *view) string { return v.http.method }),
				"headers":  pairsPart(func(v *view) []pair { return v.http.headers }),
				"path":     textPart(func(v *view) string { return v.http.path }),
				"host":     textPart(func(v *view) string { return v.http.host }),
				"scheme":   textPart(func(v *view) string { return v.http.scheme }),
				"query":    textPart(func(v *view) string { return v.http.query }),
				"fragment": textPart(func(v *view) string { return v.http.fragment }),
				"size":     integerPart(func(v *view) int64 { return v.http.size }),
				"protocol": textPart(func(v *view) string { return v.http.protocol }),
				"body":     textPart(func(v *view) string { return v.http.body }),
				"rawBody":  textPart(encodedBody),
			}},
		}},
		"contextExtensions":    pairsPart(func(v *view) []pair { return v.extensions }),
		"metadataContext":      metadataPart(func(v *view) message { return v.metadata }),
		"routeMetadataContext": metadataPart(func(v *view) message { return v.route }),
		"tlsSession": objectPart{func(v *view) bool { return v.hasTLS }, map[string]part{
			"sni": textPart(func(v *view) string { return v.sni }),
		}},
	}},
	"version":          constantPart{versionValue},
	"parsed_path":      pathPart{},
	"parsed_query":     derivedPart{(*view).rawQuery, queryValue},
	"parsed_body":      bodyPart{},
	"truncated_body":   truncatedPart{},
	"source_principal": textPart(func(v *view) string { return v.source.principal }),
}}

func always(*view) bool { return true }

func peerPart(of func(*view) *peer) part {
	return objectPart{func(v *view) bool { return of(v).present }, map[string]part{
		"address":     messagePart{func(v *view) message { return of(v).address }, decodeAddress},
		"service":     textPart(func(v *view) string { return of(v).service }),
		"labels":      pairsPart(func(v *view) []pair { return of(v).labels }),
		"principal":   textPart(func(v *view) string { return of(v).principal }),
		"certificate": textPart(func(v *view) string { return of(v).certificate }),
	}}
}

// The numbers of the maps in Envoy's Metadata.
const (
	metadataFilters      = 1
	metadataTypedFilters = 2
)

func metadataPart(of func(*view) message) part {
	return objectPart{func(v *view) bool { return of(v).present }, map[string]part{
		"filterMetadata":      mapPart{of, metadataFilters, structContent{}},
		"typedFilterMetadata": mapPart{of, metadataTypedFilters, anyContent{}},
	}}
}

var versionValue = func() rego.Value {
	o := rego.NewObject(len(version))
	for name, value := range version {
		o.Set(rego.NewName(name), rego.String(value.(string)))
	}
	return o.Value()
}()

func pathValue(path string) (rego.Value, error) {
	segments, err := parsePath(path)
	if err != nil {
		return rego.Value{}, err
	}
	return rego.Strings(segments), nil
}

func queryValue(query string) (rego.Value, error) {
	values, err := parseQuery("?" + query)
	if err != nil {
		return rego.Value{}, err
	}
	return rego.ValueOf(values)
}

func sortedNames(fields map[string]part) []string { return slices.Sorted(maps.Keys(fields)) }
