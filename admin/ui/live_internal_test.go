package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/authentication"
	"understudy/admin/authentication/tokens"
	"understudy/cmd/testkit"
)

// TestWhoLooksIsStillKnown: a live page ends when its token does.
func TestWhoLooksIsStillKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(name string) {
		sum := sha256.Sum256([]byte("the-token"))
		if err := os.WriteFile(file, []byte(name+" "+hex.EncodeToString(sum[:])+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("olga")
	files, err := tokens.Open([]string{file}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	authenticator, err := authentication.New(authentication.Config{Tokens: files})
	if err != nil {
		t.Fatal(err)
	}
	u := &UI{config: Config{Authenticator: authenticator}}
	r := httptest.NewRequest(http.MethodGet, "/ui/", http.NoBody)
	r.Header.Set("Authorization", "Bearer the-token")
	if r, err = u.authenticated(r); err != nil {
		t.Fatal(err)
	}
	if err := u.stillKnown(r); err != nil {
		t.Errorf("got %v of a token that is good", err)
	}
	go files.Follow(t.Context(), time.Millisecond)
	write("omar")
	testkit.Await(t, "the token is not known any more", func() bool { err = u.stillKnown(r); return err != nil })
	if status.Code(err) != codes.Unauthenticated || passing(err) {
		t.Errorf("got %v, want UNAUTHENTICATED", err)
	}
}
