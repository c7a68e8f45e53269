package telemetry

// Names of the OpenTelemetry semantic conventions for generative AI, as of version
// 1.41.0: the last one that was released with names for the calls of a client. They
// have the status "development". The conventions have moved to a repository of
// their own since, whose drafts rename the metrics and cache_creation; when they
// are released, this file is what changes.
const (
	schemaURL = "https://opentelemetry.io/schemas/1.41.0"

	attrOperation     = "gen_ai.operation.name"
	attrProvider      = "gen_ai.provider.name"
	attrRequestModel  = "gen_ai.request.model"
	attrRequestStream = "gen_ai.request.stream"
	attrResponseModel = "gen_ai.response.model"
	attrFirstChunk    = "gen_ai.response.time_to_first_chunk"
	attrConversation  = "gen_ai.conversation.id"
	attrTokenType     = "gen_ai.token.type"
	attrInput         = "gen_ai.usage.input_tokens" // cached ones included
	attrCacheRead     = "gen_ai.usage.cache_read.input_tokens"
	attrCacheCreation = "gen_ai.usage.cache_creation.input_tokens"
	attrOutput        = "gen_ai.usage.output_tokens" // reasoning included
	attrReasoning     = "gen_ai.usage.reasoning.output_tokens"
	attrErrorType     = "error.type"
	attrServer        = "server.address"
	attrPort          = "server.port"
	attrStatus        = "http.response.status_code"
	attrOverflow      = "otel.metric.overflow"

	metricTokens     = "gen_ai.client.token.usage"
	metricDuration   = "gen_ai.client.operation.duration"
	metricFirstChunk = "gen_ai.client.operation.time_to_first_chunk"

	operationChat       = "chat"
	operationEmbeddings = "embeddings"
	tokenInput          = "input"
	tokenOutput         = "output"
)

// Names of our own, for what the conventions have none.
const (
	attrOutcome     = "icyloom.outcome"
	attrEvent       = "icyloom.event.id"
	attrUpstream    = "icyloom.upstream"
	attrBasis       = "icyloom.usage.basis"
	attrSavedInput  = "icyloom.saved.input_tokens"
	attrSavedOutput = "icyloom.saved.output_tokens"
	attrCostPaid    = "icyloom.cost.paid_nusd"
	attrCostSaved   = "icyloom.cost.saved_nusd"
	attrLoop        = "icyloom.loop"
)

// providers are the conventions' words for upstreams that we call otherwise; any
// other upstream's own name is its provider's.
var providers = map[string]string{"mistral": "mistral_ai", "google": "gcp.gemini"}

// The bounds of the conventions' histograms.
var (
	tokenBounds   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	secondsBounds = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	firstBounds   = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
)
