package bounds

import "slices"

// Judged returns how many of the three groups a built-in is in.
func Judged(name string) (groups int) {
	for _, in := range []bool{slices.Contains(free, name), bounded[name].cost != nil, replaced[name] != nil} {
		if in {
			groups++
		}
	}
	return groups
}

// Names returns all built-ins that are judged.
func Names() (names []string) {
	names = append(names, free...)
	for name := range bounded {
		names = append(names, name)
	}
	for name := range replaced {
		names = append(names, name)
	}
	return names
}
