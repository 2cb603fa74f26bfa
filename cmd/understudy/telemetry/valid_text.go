package telemetry

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// validTexts returns records in which what is no UTF-8 is U+FFFD: for one such text protobuf
// refuses the batch. Other queues share what a record consists of, so a valid one is a copy.
func validTexts(records []sdklog.Record) []sdklog.Record {
	valid := records
	for i := range records {
		if hasValidTexts(&records[i]) {
			continue
		}
		if &valid[0] == &records[0] {
			valid = slices.Clone(records)
		}
		valid[i] = validRecord(records[i].Clone())
	}
	return valid
}

// hasValidTexts reports whether all texts of a record are UTF-8, as those of nearly all are.
func hasValidTexts(r *sdklog.Record) bool {
	valid := validText(r.EventName()) == r.EventName() && validValue(r.Body()) == r.Body()
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		valid = valid && validEntry(kv) == kv
		return valid
	})
	return valid
}

func validRecord(r sdklog.Record) sdklog.Record {
	r.SetEventName(validText(r.EventName()))
	r.SetBody(validValue(r.Body()))
	var attributes []attribute.KeyValue
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		attributes = append(attributes, validEntry(kv))
		return true
	})
	r.SetAttributes(attributes...)
	return r
}

func validEntry(kv attribute.KeyValue) attribute.KeyValue {
	return attribute.KeyValue{Key: attribute.Key(validText(string(kv.Key))), Value: validValue(kv.Value)}
}

func validValue(v attribute.Value) attribute.Value {
	switch v.Type() {
	case attribute.STRING:
		return attribute.StringValue(validText(v.AsString()))
	case attribute.STRINGSLICE:
		return attribute.StringSliceValue(each(v.AsStringSlice(), validText))
	case attribute.SLICE:
		return attribute.SliceValue(each(v.AsSlice(), validValue)...)
	case attribute.MAP:
		return attribute.MapValue(each(v.AsMap(), validEntry)...)
	default:
		return v
	}
}

// each changes elements in place.
func each[E any](elements []E, change func(E) E) []E {
	for i, e := range elements {
		elements[i] = change(e)
	}
	return elements
}

// validText is a text as UTF-8; the same one, if it is that.
func validText(text string) string {
	if utf8.ValidString(text) { // much faster
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
