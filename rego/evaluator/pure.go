package evaluator

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
	"understudy/rego/tokens"
)

// pure :: built-in of which outputs may stay opaque → how long it takes for each byte of its texts, as a
// multiple of copying it; 0 for those that are about numbers. They are functions of at most opaque.MostOperands operands
// and the clock, whose cost is about linear in the size of what they are called with. A look-up calls them
// too. So may those for tokens, of which results are cached (package tokens).
var pure = map[string]int{
	ast.NowNanos.Name: 0, ast.Plus.Name: 0, ast.Minus.Name: 0, ast.Multiply.Name: 0, ast.Divide.Name: 0, ast.Rem.Name: 0,
	ast.Abs.Name: 0, ast.Floor.Name: 0, ast.Ceil.Name: 0, ast.Round.Name: 0, ast.ToNumber.Name: 16,
	ast.IsNumber.Name: 0, ast.IsString.Name: 0, ast.IsBoolean.Name: 0, ast.IsArray.Name: 0, ast.IsSet.Name: 0,
	ast.IsObject.Name: 0, ast.IsNull.Name: 0, ast.TypeNameBuiltin.Name: 0, ast.ObjectGet.Name: 0,
	ast.Lower.Name: 1, ast.Upper.Name: 1, ast.Trim.Name: 1, ast.TrimPrefix.Name: 1, ast.TrimSuffix.Name: 1, ast.TrimLeft.Name: 1,
	ast.TrimRight.Name: 1, ast.TrimSpace.Name: 1, ast.Contains.Name: 1,
	ast.Split.Name: 2, ast.Substring.Name: 2, ast.Concat.Name: 2, ast.IndexOf.Name: 2, ast.Replace.Name: 2,
	ast.Sprintf.Name: 4, ast.FormatInt.Name: 0, ast.RegexMatch.Name: 4, ast.GlobMatch.Name: 4, ast.RegexReplace.Name: 8,
	ast.Base64Decode.Name: 2, ast.Base64UrlDecode.Name: 2, ast.JSONUnmarshal.Name: 16, ast.URLQueryDecode.Name: 2,
	ast.Count.Name: 0, ast.ArraySlice.Name: 0, ast.NetCIDRContains.Name: 16,
	ast.Clock.Name: 16, ast.Date.Name: 16, ast.Weekday.Name: 16, ast.Diff.Name: 16,
	ast.ParseRFC3339Nanos.Name: 4, ast.ParseDurationNanos.Name: 4, ast.Format.Name: 16, ast.AddDate.Name: 16,
	ast.AnyPrefixMatch.Name: 2, ast.AnySuffixMatch.Name: 2, ast.StringCount.Name: 2, ast.StringReverse.Name: 2,
	ast.IndexOfN.Name: 2, ast.SplitN.Name: 2, ast.RegexFind.Name: 8, ast.RegexSplit.Name: 8, ast.RegexTemplateMatch.Name: 8, ast.URIParse.Name: 8, ast.URIIsValid.Name: 8,
	ast.SemVerCompare.Name: 4, ast.SemVerIsValid.Name: 4, ast.UnitsParse.Name: 16, ast.UnitsParseBytes.Name: 16,
	ast.NetCIDRIsValid.Name: 16, ast.UUIDParse.Name: 4, ast.HexDecode.Name: 2,
	ast.Base64Encode.Name: 2, ast.Base64UrlEncode.Name: 2, ast.URLQueryEncode.Name: 2,
}

// isPure reports whether outputs of a built-in may stay opaque.
func isPure(name string) bool {
	_, ok := pure[name]
	return ok || tokens.IsToken(name)
}

// pure returns the function of a built-in of that kind.
func (c *Compiler) pure(name string, call topdown.BuiltinFunc, arity int) *opaque.Function {
	if f := c.calls[name]; f != nil {
		return f
	}
	f := &opaque.Function{Name: name, Arity: arity, Cost: pure[name], Clock: ofTheClock[name], Costly: tokens.IsToken(name) || name == ast.JSONUnmarshal.Name, Call: func(bctx topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		return haltOf(call(bctx, operands, collect))
	}}
	if name == ast.JWTDecodeVerify.Name {
		f.Until = tokens.Until
	}
	c.calls[name] = f
	return f
}

// haltOf returns the error of a built-in as far as it ends the evaluation. Any other is no output, as Rego
// has it; one that halts the evaluation is OPA's to report.
func haltOf(err error) error {
	if _, halts := errors.AsType[topdown.Halt](err); halts {
		return ErrUndecided
	}
	return nil
}
