package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	adminpb "understudy/admin/v1"
	"understudy/authz/background"
)

// useQueryParser sets the gateway's parser, which is one for the whole process.
var useQueryParser = sync.OnceFunc(func() { runtime.SetQueryParameterParser(queryParser{})(nil) })

// newGateway maps REST onto the services at the other end of a connection.
func newGateway(services grpc.ClientConnInterface) (*runtime.ServeMux, error) {
	useQueryParser()
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newJSON()),
		runtime.WithMarshalerOption(numericJSON, newNumericJSON()),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
			writeError(w, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			writeRoutingError(w, r)
		}),
		// An escaped colon in an ID is no verb (AIP-127).
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
	)
	ctx := context.Background()
	if err := adminpb.RegisterPolicyPreviewHandlerClient(ctx, mux, adminpb.NewPolicyPreviewClient(services)); err != nil {
		return nil, err
	}
	if err := adminpb.RegisterDatasetsHandlerClient(ctx, mux, adminpb.NewDatasetsClient(services)); err != nil {
		return nil, err
	}
	if err := adminpb.RegisterOperationsHandlerClient(ctx, mux, longrunningpb.NewOperationsClient(services)); err != nil {
		return nil, err
	}
	// Of two patterns that fit, the gateway takes that which came last: see apiRoutes.
	return mux, adminpb.RegisterIAMPolicyHandlerClient(ctx, mux, iampb.NewIAMPolicyClient(services))
}

// newJSON is proto3 JSON that refuses unknown fields and omits defaults.
func newJSON() jsonBody {
	return jsonBody{&runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
	}}
}

// jsonBody carries the error of a body through the gateway, which keeps only its text.
type jsonBody struct{ *runtime.JSONPb }

// NewDecoder implements runtime.Marshaler. An empty body stays io.EOF, by which the
// gateway knows it.
func (j jsonBody) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		decoder := j.JSONPb.NewDecoder(bytes.NewReader(body))
		background.Run(len(body), func() { err = decoder.Decode(v) })
		if err == nil || errors.Is(err, io.EOF) {
			return err
		}
		return carried{bodyError(err)}
	})
}

// Marshal writes a large answer in the background.
func (j jsonBody) Marshal(v any) (text []byte, err error) {
	background.Run(sizeOf(v), func() { text, err = j.JSONPb.Marshal(v) })
	return text, err
}
