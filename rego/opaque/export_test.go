package opaque

// Sizes returns how many derivations and questions a vocabulary has.
func Sizes(v *Vocabulary) (derivations, questions int) { return v.count, len(v.questions) }

// CachedTexts returns of how many texts answers are cached, and about how many bytes the cache takes.
func CachedTexts(v *Vocabulary) (texts int, bytes uint64) {
	cache := v.answers.Load()
	if cache == nil {
		return 0, 0
	}
	cache.texts.CleanUp()
	return cache.texts.EstimatedSize(), cache.texts.WeightedSize() + bytesOfFirst
}
