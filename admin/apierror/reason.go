package apierror

// Reason is a machine-readable reason of an error (AIP-193). A client may rely on
// it; a value, once published, keeps its meaning.
type Reason string

// The reasons of the services.
const (
	ReasonNotFound            Reason = "RESOURCE_NOT_FOUND"
	ReasonAlreadyExists       Reason = "RESOURCE_ALREADY_EXISTS"
	ReasonRequired            Reason = "REQUIRED_FIELD"
	ReasonInvalidName         Reason = "INVALID_NAME"
	ReasonInvalidID           Reason = "INVALID_ID"
	ReasonInvalidField        Reason = "INVALID_FIELD"
	ReasonImmutable           Reason = "IMMUTABLE_FIELD"
	ReasonInvalidAnnotation   Reason = "INVALID_ANNOTATION"
	ReasonInvalidPolicy       Reason = "INVALID_POLICY"
	ReasonTestsFailed         Reason = "TESTS_FAILED"
	ReasonPolicyTooLarge      Reason = "POLICY_TOO_LARGE"
	ReasonPolicyNameMismatch  Reason = "POLICY_NAME_MISMATCH"
	ReasonInvalidFilter       Reason = "INVALID_FILTER"
	ReasonInvalidOrderBy      Reason = "INVALID_ORDER_BY"
	ReasonInvalidPageSize     Reason = "INVALID_PAGE_SIZE"
	ReasonInvalidPageToken    Reason = "INVALID_PAGE_TOKEN"
	ReasonInvalidUpdateMask   Reason = "INVALID_UPDATE_MASK"
	ReasonEtagRequired        Reason = "ETAG_REQUIRED"
	ReasonEtagMismatch        Reason = "ETAG_MISMATCH"
	ReasonParentEtagMismatch  Reason = "PARENT_ETAG_MISMATCH"
	ReasonConcurrentChange    Reason = "CONCURRENT_CHANGE"
	ReasonPolicyDeleted       Reason = "POLICY_DELETED"
	ReasonPolicyNotDeleted    Reason = "POLICY_NOT_DELETED"
	ReasonPreviewNotStarted   Reason = "PREVIEW_NOT_STARTED"
	ReasonExperimentLimit     Reason = "EXPERIMENT_LIMIT"
	ReasonRequirementsNotMet  Reason = "REQUIREMENTS_NOT_MET"
	ReasonNoNextLocation      Reason = "NO_NEXT_LOCATION"
	ReasonNotNextLocation     Reason = "NOT_NEXT_LOCATION"
	ReasonRevisionNotLive     Reason = "REVISION_NOT_LIVE"
	ReasonRevisionActive      Reason = "REVISION_ACTIVE"
	ReasonNoOpLock            Reason = "NO_OP_LOCK"
	ReasonNodeFailed          Reason = "NODE_FAILED"
	ReasonDamaged             Reason = "RESOURCE_DAMAGED"
	ReasonUnimplemented       Reason = "METHOD_UNIMPLEMENTED"
	ReasonStoreUnavailable    Reason = "STORE_UNAVAILABLE"
	ReasonCompilerUnavailable Reason = "COMPILER_UNAVAILABLE"
	ReasonOutcomeUnknown      Reason = "OUTCOME_UNKNOWN"
	ReasonDeadlineExceeded    Reason = "DEADLINE_EXCEEDED"
	ReasonCancelled           Reason = "CANCELLED"
	ReasonInternal            Reason = "INTERNAL"
	ReasonUnauthenticated     Reason = "UNAUTHENTICATED"
	ReasonPermissionDenied    Reason = "PERMISSION_DENIED"
	ReasonAuditUnavailable    Reason = "AUDIT_UNAVAILABLE"
	ReasonIssuerUnavailable   Reason = "ISSUER_UNAVAILABLE"
)

// The reasons of the REST edge.
const (
	ReasonUnknownPath          Reason = "UNKNOWN_PATH"
	ReasonMethodNotAllowed     Reason = "METHOD_NOT_ALLOWED"
	ReasonInvalidJSON          Reason = "INVALID_JSON"
	ReasonUnknownField         Reason = "UNKNOWN_FIELD"
	ReasonUnknownParameter     Reason = "UNKNOWN_PARAMETER"
	ReasonInvalidParameter     Reason = "INVALID_PARAMETER"
	ReasonUnexpectedBody       Reason = "UNEXPECTED_BODY"
	ReasonBodyTooSlow          Reason = "BODY_TOO_SLOW"
	ReasonBodyTooLarge         Reason = "BODY_TOO_LARGE"
	ReasonUnsupportedMediaType Reason = "UNSUPPORTED_MEDIA_TYPE"
	ReasonForeignOrigin        Reason = "FOREIGN_ORIGIN"
	ReasonForeignHost          Reason = "FOREIGN_HOST"
)
