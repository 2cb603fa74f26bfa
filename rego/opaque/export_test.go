package opaque

// Sizes returns how many derivations and questions a vocabulary has.
func Sizes(v *Vocabulary) (derivations, questions int) { return v.count, len(v.questions) }
