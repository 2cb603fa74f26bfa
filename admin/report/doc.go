// Package report turns evidence into the answer to "should I commit?".
//
// Its model has two halves. A Report is what the sidecars counted of one experiment: [Build]
// makes it of their merged evidence, for the present pair of etags (live policy, experiment)
// and, in sums, for all pairs of the experiment's present content. Requirements are what a
// report has to show: [Parse] reads them as commands write them
// (`requests>=10000,newly-denied=0`), [Format] writes them so, and [Judge] holds a report
// against them, each with what there is and what is needed.
//
// Each requirement is one row of one table (requirements.go), which all three read.
//
// A requirement is met by what is known alone: a share before anything was compared, a share of items while nobody knows them,
// a share of which more than 1 % was lost, and all of no nodes are unmet. A limit on a count is
// met by a count of zero, so anyone who sets one also sets how many requests there have to be.
//
// A share has a denominator that what both policies deny does not grow ([Part]): newly denied
// requests are a share of those that the live policy allows, and so on. Anyone who is allowed can still
// thin the one, and anyone who is refused the other; a limit on a count cannot be thinned. Where chance
// chose what was compared, counts are of what was compared, and shares of what that stands for: a
// limit is held against the upper end of their 95 % interval ([Part.Interval]).
//
// How sure a report is, is in bounds at 95 % ([boundsOf]): over callers, where they are known, for the
// requests of one are not independent, and over requests. Anyone who looks once is told an exact binomial
// bound. A requirement is looked at again and again, so it is held against one that holds at all times
// ([watchedLimit]).
//
// Nothing here does I/O, and a [Cache] alone keeps state; all of it is safe for concurrent use.
package report
