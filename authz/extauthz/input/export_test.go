package input

// FallbackOf returns why a request is decoded in full; empty if it is not.
func FallbackOf(wire []byte) string {
	return string((&Check{}).readLazily(string(wire), nil))
}
