package rest

import (
	"errors"
	"net/http"
	"os"
	"strconv"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// The content of a dataset is the body of a request, or of an answer, as it is: a google.api.HttpBody.
// The gateway would wrap it in base64. So these calls are made here, through the same chain.

// plainRoutes :: method → how it is answered.
var plainRoutes = map[string]func(*API, http.ResponseWriter, *http.Request, route){
	adminpb.Datasets_UploadDataset_FullMethodName:   (*API).upload,
	adminpb.Datasets_DownloadDataset_FullMethodName: (*API).download,
}

// upload is the call whose body is a document.
func (a *API) upload(w http.ResponseWriter, r *http.Request, route route) {
	if !IsJSON(r.Header) {
		w.Header().Set("Accept-Encoding", "identity")
		writeStatus(w, http.StatusUnsupportedMediaType, unsupportedMediaType())
		return
	}
	body, err := ReadBody(w, r, a.maxDocument)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeStatus(w, http.StatusRequestEntityTooLarge, bodyTooLarge(a.maxDocument))
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeStatus(w, http.StatusRequestTimeout, bodyTooSlow())
		return
	case err != nil:
		writeStatus(w, http.StatusBadRequest, invalidJSON("The body could not be read to its end."))
		return
	case len(body) == 0:
		writeStatus(w, http.StatusBadRequest, apierror.Required("content", "It is the body of the call: the document itself."))
		return
	}
	request := &adminpb.UploadDatasetRequest{
		Name: route.resource(r.URL.EscapedPath()), Content: &httpbody.HttpBody{ContentType: "application/json", Data: body},
	}
	if err := readQuery(r, request, "name", "content"); err != nil {
		WriteError(w, err)
		return
	}
	op := &longrunningpb.Operation{}
	if err := a.local.Invoke(r.Context(), route.rpc, request, op); err != nil {
		WriteError(w, err)
		return
	}
	text, err := newJSON().Marshal(op)
	if err != nil {
		WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// download is the call whose answer is a document.
func (a *API) download(w http.ResponseWriter, r *http.Request, route route) {
	request := &adminpb.DownloadDatasetRequest{Name: route.resource(r.URL.EscapedPath())}
	if err := readQuery(r, request, "name"); err != nil {
		WriteError(w, err)
		return
	}
	document := &httpbody.HttpBody{}
	if err := a.local.Invoke(r.Context(), route.rpc, request, document); err != nil {
		WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", document.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(document.Data)))
	_, _ = w.Write(document.Data)
}

// readQuery reads the parameters of a request into a message, but for the fields that are elsewhere.
func readQuery(r *http.Request, into proto.Message, elsewhere ...string) error {
	var bound [][]string
	for _, field := range elsewhere {
		bound = append(bound, []string{field})
	}
	err := queryParser{}.Parse(into, r.URL.Query(), utilities.NewDoubleArray(bound))
	var of carried
	if errors.As(err, &of) {
		return of.err
	}
	return err
}
