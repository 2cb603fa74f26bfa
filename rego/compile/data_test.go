package compile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"understudy/rego/compile"
)

// root reads the whole data of a store.
func root(t testing.TB, store storage.Store) ast.Value {
	t.Helper()
	txn, err := store.NewTransaction(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read, err := store.Read(t.Context(), txn, storage.RootPath)
	if err != nil {
		t.Fatal(err)
	}
	return read.(ast.Value)
}

// data is a document of few distinct values, so that many of its parts are equal, among them
// such that are written alike and differ.
func data(random *rand.Rand, depth int) any {
	switch kind := random.IntN(8); {
	case kind < 2 && depth > 0:
		object := map[string]any{}
		for range random.IntN(4) {
			object[string(rune('a'+random.IntN(3)))] = data(random, depth-1)
		}
		return object
	case kind < 4 && depth > 0:
		array := []any{}
		for range random.IntN(4) {
			array = append(array, data(random, depth-1))
		}
		return array
	default:
		return []any{nil, true, false, "", "1", "a", json.Number("1"), json.Number("1.0"), json.Number("1e0"), json.Number("-0"), 1.5, "null"}[random.IntN(12)]
	}
}

// TestSharedDataIsTheSame: whatever is shared, the data reads as OPA makes it of the document.
func TestSharedDataIsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		document := map[string]any{"x": data(random, 5), "y": data(random, 5)}
		want, err := ast.InterfaceToValue(document)
		if err != nil {
			t.Fatal(err)
		}
		got := root(t, compile.NewStore(document))
		if got.String() != want.String() || got.Compare(want) != 0 || got.Hash() != want.Hash() {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestEqualDataIsShared: rows of a table share their keys and values, and equal rows are one.
func TestEqualDataIsShared(t *testing.T) {
	users := map[string]any{}
	for i := range 100 {
		users[fmt.Sprint(i)] = map[string]any{"roles": []any{"viewer", "admin"}, "tenant": fmt.Sprint(i % 10)}
	}
	read := root(t, compile.NewStore(map[string]any{"users": users}))
	distinct := make(map[*ast.Term]bool)
	var walk func(term *ast.Term)
	walk = func(term *ast.Term) {
		if distinct[term] {
			return
		}
		distinct[term] = true
		switch v := term.Value.(type) {
		case ast.Object:
			v.Foreach(func(key, value *ast.Term) { walk(key); walk(value) })
		case *ast.Array:
			v.Foreach(walk)
		}
	}
	walk(ast.NewTerm(read))
	// The root, "users", their table; 100 names; ten rows, "roles" and "tenant", ten tenants, of
	// which each is a name as well, two roles and one array of them.
	if got, want := len(distinct), 3+100+10+2+2+1; got != want {
		t.Errorf("there are %d terms, want %d", got, want)
	}
}

// TestDataThatIsNoJSON is left to the store, whatever is around it.
func TestDataThatIsNoJSON(t *testing.T) {
	read := root(t, compile.NewStore(map[string]any{"a": map[string]any{"b": []any{struct {
		C int `json:"c"`
	}{1}}}, "d": "e"}))
	if got, want := read.String(), `{"a": {"b": [{"c": 1}]}, "d": "e"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := root(t, compile.NewStore(nil)).String(); got != "{}" {
		t.Errorf("no data is %s", got)
	}
}
