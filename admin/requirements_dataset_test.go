package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/uuid"

	"understudy/admin"
	"understudy/authz"
)

func init() {
	rows["D-8"] = contentIsText
	rows["D-13"] = tooLargeDocument
	rows["D-14"] = damagedDataset
	rows["D-15"] = concurrentDatasets
	rows["D-16"] = largeDocument
}

// upload sends a document as the content of the dataset users.
func (r *row) upload(document, query string) *apiResponse {
	r.Helper()
	return r.send(http.MethodPost, r.variables["L"].(string)+"/datasets/users:upload"+query, &document)
}

// contentIsText: a script cannot hold what is not UTF-8.
func contentIsText(r *row) {
	a := r.upload("{\"a\":\"\xff\"}", "")
	if a.status != http.StatusBadRequest || !strings.Contains(a.body, "It is not UTF-8") {
		r.errorf("%d %s", a.status, a.body)
	}
}

// tooLargeDocument: one that is larger than the limit is refused by that, and one that is much
// larger before it is read.
func tooLargeDocument(r *row) {
	for size, want := range map[int]string{9 << 20: "the limit is 8388608", 17 << 20: "16777216"} {
		a := r.upload(`"`+strings.Repeat("x", size)+`"`, "")
		if a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, want) {
			r.errorf("%d bytes: %d %s", size, a.status, a.body)
		}
	}
	spaced := strings.Repeat(" ", 9<<20) + `{"a":2}`
	if a := r.upload(spaced, ""); a.status != http.StatusBadRequest || !strings.Contains(a.body, "DATASET_TOO_LARGE") {
		r.errorf("white space counts: %d %s", a.status, a.body)
	}
}

// spoilDataset puts bytes in the place of the dataset users.
func (r *row) spoilDataset() {
	r.Helper()
	key := admin.Key(r.path("$l/datasets/users"))
	records, err := r.store.Get(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.store.Commit(r.Context(), admin.Txn{ID: uuid.NewString(), Project: r.store.project, Writes: []admin.Write{
		admin.Put{Key: key, Value: []byte(notAMessage), Etag: records[0].Etag},
	}})
	if err != nil {
		r.Fatal(err)
	}
}

func damagedDataset(r *row) {
	r.spoilDataset()
	r.do(`
GET $L/datasets/users` + dataLoss + `
GET $L/datasets
ids .datasets other
is .unreachable ["$l/datasets/users"]
POST $L/datasets/users:upload {"v":2}` + dataLoss + `
PATCH $L/datasets/users {"displayName":"x"}` + dataLoss + `
POST $L/datasets?datasetId=users {}
error 409 ALREADY_EXISTS
GET $L/datasets/users/versions
count .datasetVersions 1
PATCH $L/datasets/users?updateMask=* {"displayName":"x"}
OP Dataset
absent .version
POST $L/datasets/users/versions/1:rollback {}
OP Dataset
GET $L/datasets/users:download
is . {"v":1}`)
	r.spoilDataset()
	r.do(`
DELETE $L/datasets/users
OP Dataset
GET $L/datasets/users
error 404 NOT_FOUND
POST $L/datasets?datasetId=users {}
OP Dataset
GET $L/datasets/users/versions
count .datasetVersions 0
POST $L/datasets/users:upload {"v":1}
OP Dataset
POST $L/datasets/users:upload {"v":2}
OP Dataset
U = .versionUid`)
	// The content of the current version is lost.
	of := authz.Content{Dataset: authz.DatasetName(r.path("$l/datasets/users")), UID: r.variables["U"].(string), Chunks: 1}
	_, err := r.store.Commit(r.Context(), admin.Txn{ID: uuid.NewString(), Project: r.store.project, Writes: []admin.Write{
		admin.ExpireContent{Content: of, ExpireTime: r.clock.now()},
	}})
	if err != nil {
		r.Fatal(err)
	}
	r.do(`
GET $L/datasets/users:download` + dataLoss + `
POST $L/datasets/users:patch {"patch":[]}` + dataLoss + `
POST $L/datasets/users/versions/1:rollback {}
OP Dataset
POST $L/datasets/users/versions/2:rollback {}` + dataLoss + `
GET $L/datasets/users:download
is . {"v":1}
POST $L/datasets/users:upload {"v":2}
OP Dataset
is .version $l/datasets/users/versions/3`)
}

// concurrentDatasets patches a dataset by many at once.
func concurrentDatasets(r *row) {
	const callers = 12
	var running sync.WaitGroup
	answers := make([]*apiResponse, callers)
	for i := range callers {
		running.Go(func() {
			body := fmt.Sprintf(`{"patch":[{"op":"add","path":"/k%d","value":%d}]}`, i, i)
			answers[i] = r.send(http.MethodPost, r.variables["L"].(string)+"/datasets/users:patch", &body)
		})
	}
	running.Wait()
	for i, a := range answers {
		if a.status != http.StatusOK {
			r.errorf("caller %d: %d %s", i, a.status, a.body)
		}
	}
	r.do("GET $L/datasets/users:download")
	if got := len(r.document.(map[string]any)); got != callers {
		r.errorf("%d of %d patches were made: %v", got, callers, r.document)
	}
	r.do("GET $L/datasets/users\nE = .etag")
	made := 0
	for i := range callers {
		running.Go(func() {
			answers[i] = r.upload(fmt.Sprintf(`{"only":%d}`, i), "?etag="+url.QueryEscape(r.variables["E"].(string)))
		})
	}
	running.Wait()
	for _, a := range answers {
		switch a.status {
		case http.StatusOK:
			made++
		case http.StatusConflict:
		default:
			r.errorf("%d %s", a.status, a.body)
		}
	}
	if made != 1 {
		r.errorf("%d of the uploads with one etag were made", made)
	}
}

// largeDocument has four chunks. Of another one the server stored two, and died.
func largeDocument(r *row) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 60_000 {
		fmt.Fprintf(&b, `"u%05d":{"mail":"user%d@example.com","roles":["viewer"]},`, i, i)
	}
	document := strings.TrimSuffix(b.String(), ",") + "}"
	if a := r.upload(document, ""); a.status != http.StatusOK {
		r.fatalf("%d %s", a.status, a.body)
	}
	r.addServer("s2")
	r.useServer("s2")
	a := r.send(http.MethodGet, r.variables["L"].(string)+"/datasets/users:download", nil)
	if a.status != http.StatusOK || a.body != document {
		r.errorf("%d bytes became %d: %d", len(document), len(a.body), a.status)
	}
	left := authz.Content{Dataset: authz.DatasetName(r.path("$l/datasets/users")), UID: uuid.NewString(), Chunks: 3}
	for i := range 2 {
		if err := r.store.PutChunk(r.Context(), left, i, []byte("x")); err != nil {
			r.Fatal(err)
		}
	}
	r.clock.move(authz.ContentKept)
	for i := range 2 {
		if _, err := r.store.Chunk(r.Context(), left, i); !errors.Is(err, authz.ErrNoChunk) {
			r.errorf("chunk %d is left: %v", i, err)
		}
	}
	r.do("GET $L/datasets/users:download")
}
