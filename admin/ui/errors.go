package ui

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/apierror"
)

// problem is what the page of an error shows.
type problem struct {
	// Message says what is wrong.
	Message string
	// Details are further sentences, such as the requirements that are not met.
	Details []string
	// Permission and Resource are what somebody lacks.
	Permission, Resource string
	// Fix is what to do now.
	Fix string
	// Back is where to go on.
	Back link
}

// headings :: code → what a page says of it, and what to do. Others are internal.
var headings = map[codes.Code]struct {
	http       int
	title, fix string
}{
	codes.Unauthenticated:    {http.StatusUnauthorized, "Who are you?", "Send a token, as the command line does, or ask the operator of this server how to log in."},
	codes.PermissionDenied:   {http.StatusForbidden, "You may not do this", "Ask an owner of the project for a role that has the permission."},
	codes.NotFound:           {http.StatusNotFound, "There is nothing here", "It may have been committed or deleted since the link was made."},
	codes.Unimplemented:      {http.StatusMethodNotAllowed, "This cannot be asked here", "Go back, and use the button there."},
	codes.Aborted:            {http.StatusConflict, "It has changed since you looked", "Nothing was done. Go back, look at it as it is now, and decide again."},
	codes.AlreadyExists:      {http.StatusConflict, "It is there already", ""},
	codes.FailedPrecondition: {http.StatusBadRequest, "This is not possible now", "Nothing was done."},
	codes.InvalidArgument:    {http.StatusBadRequest, "This address or form is not valid", "Go back, and use the links of the page."},
	codes.Unavailable:        {http.StatusServiceUnavailable, "The server cannot answer now", "Load the page again in a moment. Sidecars go on deciding by the policies that they have."},
	codes.DeadlineExceeded:   {http.StatusGatewayTimeout, "The server took too long", "Load the page again in a moment."},
	codes.Canceled:           {http.StatusGatewayTimeout, "The request was cancelled", "Load the page again."},
	codes.ResourceExhausted:  {http.StatusTooManyRequests, "There is too much of it", ""},
	codes.DataLoss:           {http.StatusInternalServerError, "What is stored cannot be read", "It was damaged, or another version wrote it. Sidecars go on with the last version that they could read; replace it or delete it with the command line."},
}

// writeError answers with the page of an error.
func (u *UI) writeError(w http.ResponseWriter, r *http.Request, err error) {
	st := status.Convert(err)
	heading, known := headings[st.Code()]
	p := problem{Message: st.Message(), Back: u.back(r, st.Code() == codes.NotFound)}
	if !known {
		u.config.Logger.ErrorContext(r.Context(), "a page could not be made", "error", err)
		heading.http, heading.title, heading.fix = http.StatusInternalServerError, "Something went wrong", "Load the page again. The server's log has the cause."
		p.Message = "An internal error occurred."
	}
	p.Fix = heading.fix
	for _, d := range st.Details() {
		p.describe(d)
	}
	if st.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", access.Challenge)
	}
	u.writeProblem(w, r, heading.http, heading.title, p)
}

// describe takes what a page shows of a detail of an error.
func (p *problem) describe(detail any) {
	switch d := detail.(type) {
	case *errdetails.ErrorInfo:
		if d.Reason == string(apierror.ReasonPermissionDenied) {
			p.Permission, p.Resource = d.Metadata["permission"], d.Metadata["resource"]
		}
	case *errdetails.PreconditionFailure:
		for _, v := range d.Violations {
			p.Details = append(p.Details, strings.TrimSpace(v.Description))
		}
	case *errdetails.BadRequest:
		for _, v := range d.FieldViolations {
			p.Details = append(p.Details, v.Field+": "+v.Description)
		}
	}
}

// back is where a form was, unless that is gone; else the location that an address is in, or the
// first page.
func (u *UI) back(r *http.Request, gone bool) link {
	segments := strings.Split(strings.TrimPrefix(r.URL.Path, Root), "/")
	if len(segments) > 4 && segments[0] == "projects" && segments[2] == "locations" {
		if len(segments) > 6 && r.Method == http.MethodPost { // …/policies/P/experiments/E/start
			name := strings.Join(segments[:len(segments)-1], "/")
			if segments[6] == "revisions" || gone {
				name = strings.Join(segments[:6], "/")
			}
			return link{"Back to " + id(name), address(name)}
		}
		return link{"Policies of " + segments[3], address(strings.Join(segments[:4], "/"))}
	}
	return link{"Policies", Root}
}

// writeNowhere answers what no page is at.
func (u *UI) writeNowhere(w http.ResponseWriter, r *http.Request) {
	get := r.Clone(r.Context())
	get.Method = http.MethodGet
	post := r.Clone(r.Context())
	post.Method = http.MethodPost
	var allow []string
	if _, pattern := u.mux.Handler(get); pattern != "" {
		allow = append(allow, "GET", "HEAD")
	}
	if _, pattern := u.mux.Handler(post); pattern != "" {
		allow = append(allow, "POST")
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		u.writeError(w, r, apierror.New(codes.Unimplemented, apierror.ReasonMethodNotAllowed, "This address is not asked with "+apierror.Shown(r.Method)+".", nil))
		return
	}
	u.writeError(w, r, apierror.New(codes.NotFound, apierror.ReasonUnknownPath, "No page has the address "+apierror.Shown(r.URL.Path)+".", nil))
}

// writeProblem writes the page of an error.
func (u *UI) writeProblem(w http.ResponseWriter, r *http.Request, code int, title string, p problem) {
	part, err := u.render(part{ID: "problem", Page: "problem", Data: p}, nil)
	if err != nil {
		u.config.Logger.ErrorContext(r.Context(), "the page of an error could not be made", "error", err)
	}
	u.writeFrame(w, r, code, frame{view: &view{Title: title, Asks: true}, Rendered: []rendered{part}})
}
