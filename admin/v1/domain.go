package adminpb

// ErrorDomain is the domain of every ErrorInfo of this project (AIP-193): those of the
// API's errors, and those in which a sidecar reports what it could not apply.
const ErrorDomain = "understudy.internal"
