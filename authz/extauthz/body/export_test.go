package body

// Weigh returns how many values a body is taken for, and the value that it is parsed to; it
// reports false if it is not parsed.
func (b Body) Weigh() (weight int, value any, ok bool) {
	if b.parse == nil {
		return 0, nil, false
	}
	value, err := b.parse(b.content)
	return b.weight(b.content), value, err == nil
}
