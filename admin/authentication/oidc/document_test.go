package oidc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestClaimsCountByTheirExactNames: a signed token in which a claim could be read as another
// one is refused, in whatever order they stand.
func TestClaimsCountByTheirExactNames(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	v := verifying(t, issuer)
	now := time.Now().Unix()
	good := fmt.Sprintf(`"iss":%q,"sub":"alice","aud":"understudy","exp":%d`, issuer.URL, now+3600)
	past := strings.Replace(good, fmt.Sprint(now+3600), fmt.Sprint(now-3600), 1)
	foreign := strings.Replace(good, `"understudy"`, `"other"`, 1)
	for name, c := range map[string]struct{ claims, want string }{
		"good":                              {good, "ok"},
		"SUB":                               {good + `,"SUB":"root"`, "malformed"},
		"SUB before it":                     {`"SUB":"root",` + good, "malformed"},
		"Sub":                               {good + `,"Sub":"root"`, "malformed"},
		"a long s":                          {good + `,"ſub":"root"`, "malformed"},
		"a long s as an escape":             {good + `,"\u017fub":"root"`, "malformed"},
		"SUB alone":                         {strings.Replace(good, `"sub"`, `"SUB"`, 1), "malformed"},
		"sub twice":                         {good + `,"sub":"root"`, "malformed"},
		"sub as an escape":                  {good + `,"\u0073ub":"root"`, "malformed"},
		"another audience, and AUD":         {foreign + `,"AUD":"understudy"`, "malformed"},
		"an end that is past, and EXP":      {past + fmt.Sprintf(`,"EXP":%d`, now+3600), "malformed"},
		"a begin, and NBF":                  {good + fmt.Sprintf(`,"nbf":%d,"NBF":%d`, now+600, now-600), "malformed"},
		"ISS":                               {good + fmt.Sprintf(`,"ISS":%q`, issuer.URL), "malformed"},
		"Nonce":                             {good + `,"Nonce":"x"`, "malformed"},
		"Events":                            {good + `,"Events":{}`, "malformed"},
		"Email_Verified":                    {good + `,"Email_Verified":true`, "malformed"},
		"the groups' claim in capitals":     {good + `,"GROUPS":["ops"]`, "malformed"},
		"the groups' claim twice":           {good + `,"groups":[],"groups":["ops"]`, "malformed"},
		"a name twice, deep down":           {good + `,"a":[{"b":{"c":1,"c":2}}]`, "malformed"},
		"claims of one's own":               {good + `,"Team":"a","team":"b","subject":"root","a":{"SUB":1,"sub":2}`, "ok"},
		"bytes that are no UTF-8":           {good + ",\"a\":\"\xff\"", "malformed"},
		"an end as a text":                  {strings.Replace(good, fmt.Sprint(now+3600), fmt.Sprintf(`"%d"`, now+3600), 1), "malformed"},
		"an end in milliseconds":            {strings.Replace(good, fmt.Sprint(now+3600), fmt.Sprint((now+3600)*1000), 1), "malformed"},
		"an end beyond all times":           {strings.Replace(good, fmt.Sprint(now+3600), "1e300", 1), "expired"},
		"an end with a fraction":            {strings.Replace(good, fmt.Sprint(now+3600), fmt.Sprintf("%d.75", now+3600), 1), "ok"},
		"null beside the audience":          {strings.Replace(good, `"understudy"`, `["understudy",null]`, 1), "ok"},
		"a number beside the audience":      {strings.Replace(good, `"understudy"`, `["understudy",1]`, 1), "malformed"},
		"a subject that is a number":        {strings.Replace(good, `"alice"`, `7`, 1), "malformed"},
		"groups below a name of their own":  {good + `,"groups":{"groups":["ops"]}`, "malformed"},
		"a begin that is no time":           {good + `,"nbf":"soon"`, "malformed"},
		"another object behind the claims":  {good + `}{"sub":"root"`, "malformed"},
		"an event that is null":             {good + `,"events":null`, "malformed"},
		"a claim that is null is not there": {good + `,"groups":null,"nbf":null`, "ok"},
	} {
		if got := outcome(t, v, issuer.Key().SignText([]byte("{"+c.claims+"}"))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// FuzzClaims: of whatever an issuer signs, what is taken is what an independent reader takes
// that knows each name in one form alone.
func FuzzClaims(f *testing.F) {
	issuer := oidctest.New(f)
	issuer.SetKeys(issuer.NewEC("elliptic"))
	v, err := oidc.New(oidc.Config{URL: issuer.URL, Audiences: []string{issuer.Audience}, GroupsClaim: "groups"})
	if err != nil {
		f.Fatal(err)
	}
	const end = `"exp":4102444800`
	for _, more := range []string{
		`"sub":"a","aud":"understudy",` + end, `"sub":"a","SUB":"b","aud":"understudy",` + end, `"aud":["understudy"],"ſub":"b",` + end,
		`"sub":"a","aud":"x","AUD":"understudy",` + end, `"sub":"a","aud":"understudy","exp":4102444800.9,"EXP":1`,
		`"sub":"a","aud":"understudy","sub":"b",` + end, `"sub":"a","aud":["understudy",null],"groups":"g",` + end,
		`"sub":"a","aud":"understudy","groups":["g",null,"h"],"nonce":"n","x":{"y":1,"y":2},` + end,
	} {
		f.Add([]byte(more))
	}
	f.Fuzz(func(t *testing.T, more []byte) {
		text := append(fmt.Appendf(nil, `{"iss":%q,`, issuer.URL), append(more, '}')...)
		got, err := v.Verify(t.Context(), issuer.Key().SignText(text))
		if err != nil {
			return
		}
		want, err := exactly(text)
		if err != nil {
			t.Fatalf("%s is taken, and %v", text, err)
		}
		audience, _ := want["aud"].([]any)
		if audience == nil {
			audience = []any{want["aud"]}
		}
		expires, _ := want["exp"].(float64)
		if got.Issuer != want["iss"] || got.Subject != want["sub"] || !slices.Contains(audience, any(issuer.Audience)) || float64(got.Expires.Unix()) != math.Trunc(expires) {
			t.Errorf("%s is %+v", text, got)
		}
		if nonce, _ := want["nonce"].(string); nonce != got.Nonce {
			t.Errorf("%s has the nonce %q", text, got.Nonce)
		}
		groups, _ := want["groups"].([]any)
		for _, g := range got.Groups {
			if !slices.Contains(groups, any(g)) && g != want["groups"] {
				t.Errorf("%s has the group %q", text, g)
			}
		}
	})
}

// exactly reads one object, token by token. A name that is there twice is an error.
func exactly(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	value, err := readValue(d)
	if err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("something stands behind it")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is no object")
	}
	return object, nil
}

// readValue reads the next value.
func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(d)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := readValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err := d.Token()
		return list, err
	}
	return token, nil
}

// readObject reads the rest of an object.
func readObject(d *json.Decoder) (any, error) {
	object := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := readValue(d)
		if err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if _, twice := object[text]; twice {
			return nil, fmt.Errorf("%q is there twice", text)
		}
		object[text] = value
	}
	_, err := d.Token()
	return object, err
}
