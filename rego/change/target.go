package change

// Target is a body of which items are watched.
type Target struct {
	File string
	// Line and Column are where the body's rule begins. They count from 1.
	Line, Column int
	// Rule is the place in the list of the body as an item; negative if it is none.
	Rule int
	// Conditions are its expressions that are items.
	Conditions []Watched
}

// Watched is an expression that is an item, by its bytes in the module.
type Watched struct{ Item, Offset, Length int }

// holds reports whether a part of the source is of the expression. The compiler makes several expressions
// of one, each with its part.
func (w Watched) holds(offset int) bool { return offset >= w.Offset && offset < w.Offset+w.Length }

// Shown is what a request has shown of an item.
type Shown uint8

// What was shown, in any combination.
const (
	// True: a body or a condition was true, or the item made a difference.
	True Shown = 1 << iota
	// False: a condition was asked, and not true.
	False
)
