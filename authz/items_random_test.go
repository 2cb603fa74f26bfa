package authz_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego/change"
)

// tenants reads data in several ways: by keys of the request, through arrays and rows, and with a limit.
const tenants = `package envoy.authz

default allow := false

allow if {
	input.need in perms
	not blocked
}

perms contains p if {
	some role in data.users[input.user].roles
	some p in data.roles[role]
}

blocked if {
	some row in data.rows
	row.user == input.user
	row.hours[_] == input.hour
}

allow if data.flags[input.user].admin == true
`

// TestDataIsSeenWhenItDecides compares random data on random requests: an item is shown by just those requests that
// are decided otherwise with it alone taken back, as policies compiled of that data decide. Where several items
// decide only together, none is shown.
func TestDataIsSeenWhenItDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shown := 0
	for range 40 {
		live, candidate := regoPolicy(tenants, randomData(t, r)), regoPolicy(tenants, nil)
		candidate.Data = changedData(t, r, live.Data)
		judge := judgeOf(t, live, candidate)
		for range 12 {
			line := fmt.Sprintf(`10:00 {"user": "u%d", "need": "p%d", "hour": %d}`, r.IntN(3), r.IntN(3), r.IntN(3))
			found, err := judge.Examine(t.Context(), nil, itemRequest(t, line), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, item := range judge.List.Items {
				alone := decidesAlone(t, live, candidate, item, line)
				if found[i] != 0 {
					shown++
				}
				if found[i] != 0 && !alone {
					t.Errorf("%s\n%s is shown, and does not decide by itself\nlive %v\ncandidate %v", line, itemLine(item, 0, 0), live.Data, candidate.Data)
				}
				if found[i] == 0 && alone && len(judge.List.Items) == 1 {
					t.Errorf("%s\n%s is not shown, and decides\nlive %v\ncandidate %v", line, itemLine(item, 0, 0), live.Data, candidate.Data)
				}
			}
		}
	}
	if shown < 30 {
		t.Errorf("items were shown %d times; want more, or the test shows nothing", shown)
	}
}

// randomData is for tenants.
func randomData(t testing.TB, r *rand.Rand) *structpb.Struct {
	t.Helper()
	some := func(prefix string) []any {
		var out []any
		for i := range 3 {
			if r.IntN(2) == 0 {
				out = append(out, prefix+strconv.Itoa(i))
			}
		}
		return out
	}
	users, roles, flags := map[string]any{}, map[string]any{}, map[string]any{"nobody": true}
	var rows []any
	for i := range 3 {
		key := strconv.Itoa(i)
		users["u"+key], roles["r"+key] = map[string]any{"roles": some("r")}, some("p")
		if r.IntN(4) == 0 {
			flags["u"+key] = map[string]any{"admin": r.IntN(2) == 0}
		}
		rows = append(rows, map[string]any{"user": "u" + key, "hours": []any{r.IntN(3)}})
	}
	out, err := structpb.NewStruct(map[string]any{"users": users, "roles": roles, "flags": flags, "rows": rows})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changedData has one to three parts of other random data.
func changedData(t testing.TB, r *rand.Rand, of *structpb.Struct) *structpb.Struct {
	t.Helper()
	out, other := proto.Clone(of).(*structpb.Struct), randomData(t, r)
	for range 1 + r.IntN(3) {
		table := []string{"users", "roles", "flags", "rows"}[r.IntN(4)]
		into, from := out.Fields[table], other.Fields[table]
		if rows := into.GetListValue().GetValues(); rows != nil {
			i := r.IntN(len(rows))
			rows[i] = from.GetListValue().Values[i]
			continue
		}
		for key, value := range from.GetStructValue().GetFields() {
			if r.IntN(2) == 0 {
				into.GetStructValue().Fields[key] = value
			}
		}
	}
	return out
}

// decidesAlone reports whether a side decides otherwise with an item taken back: by policies of that data.
func decidesAlone(t testing.TB, live, candidate *adminpb.Policy, item change.Item, line string) bool {
	t.Helper()
	differs := func(of *adminpb.Policy, from, to string) bool {
		edited := regoPolicy(tenants, edited(t, of.Data, item.Path, from, to))
		return decides(t, of, line) != decides(t, edited, line)
	}
	return item.Candidate != "" && differs(candidate, item.Candidate, item.Live) || item.Live != "" && differs(live, item.Live, item.Candidate)
}

// edited returns data with what stands at a place as text replaced: an element of an array that has it, or the place.
func edited(t testing.TB, data *structpb.Struct, path, from, to string) *structpb.Struct {
	t.Helper()
	out := proto.Clone(data).(*structpb.Struct)
	var value *structpb.Value
	if to != "" {
		value = &structpb.Value{}
		if err := value.UnmarshalJSON([]byte(to)); err != nil {
			t.Fatal(err)
		}
	}
	steps := ast.MustParseRef(path)[1:]
	at := structpb.NewStructValue(out)
	for _, step := range steps[:len(steps)-1] {
		at = stepInto(at, step)
	}
	last := steps[len(steps)-1]
	list := stepInto(at, last).GetListValue()
	i := slices.IndexFunc(list.GetValues(), func(v *structpb.Value) bool {
		text, err := json.Marshal(v.AsInterface())
		return err == nil && string(text) == from
	})
	switch {
	case i >= 0 && value == nil:
		list.Values = slices.Delete(list.Values, i, i+1)
	case i >= 0:
		list.Values[i] = value
	case value == nil:
		delete(at.GetStructValue().Fields, string(last.Value.(ast.String)))
	default:
		at.GetStructValue().Fields[string(last.Value.(ast.String))] = value
	}
	return out
}

// stepInto returns a member of an object, or an element of an array.
func stepInto(v *structpb.Value, step *ast.Term) *structpb.Value {
	if name, ok := step.Value.(ast.String); ok {
		return v.GetStructValue().GetFields()[string(name)]
	}
	i, _ := step.Value.(ast.Number).Int()
	return v.GetListValue().GetValues()[i]
}

func decides(t testing.TB, p *adminpb.Policy, line string) authz.Effect {
	t.Helper()
	compiled, err := authz.Compile(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Decide(t.Context(), itemRequest(t, line), authz.Conditions{}).Effect
}
