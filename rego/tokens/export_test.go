package tokens

// CachedTokens returns about how many bytes the cached results about tokens take, and the
// most that they may.
func CachedTokens() (bytes, limit uint64) {
	tokenCache.CleanUp()
	for _, r := range tokenCache.All() {
		bytes += uint64(r.weight)
	}
	return bytes, maxTokenBytes
}
