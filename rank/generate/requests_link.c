/* Passes requests and events between the control client and serve.c. Made by mode.c. */
#include "generate/requests_link.h"

#include "base/assert.h"
#include "base/clock.h"
#include "control.pb-c.h"
#include "generate/alone.h"

static bool take(void *user, proto_work *work)
{
    const rank_worker *worker = user;
    return proto_client_take_work(worker->client, work);
}

/* While nothing is to be computed, rank 0 steps so often that the others' collective does not time out. */
static base_status wait_for_work(void *user, base_error *reterr)
{
    const rank_worker *worker = user;
    const int64_t timeout_ns = worker->identity.job.parallel.timeout_ms * BASE_NS_PER_MS;
    return proto_client_wait_work(worker->client,
                                  base_deadline_after_ns(rank_alone_period_ns(timeout_ns)), reterr);
}

/* Ids and text bytes of tokens, and of each log-probability its id, its value, and the frame of its bytes. */
_Static_assert(PROTO_EVENT_TEXT_BYTES_MAX + 16 * PROTO_EVENT_TOKENS_MAX +
                       24 * PROTO_EVENT_LOGPROBS_MAX + PROTO_EVENT_LOGPROB_BYTES_MAX + 1024 <
                   PROTO_RANK_MESSAGE_BYTES_MAX,
               "a message has room for an event");

static Ringfence__Control__FinishReason reason_of(rank_finish finish)
{
    switch (finish) {
    case RANK_FINISH_STOP:
        return RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_STOP;
    case RANK_FINISH_LENGTH:
    case RANK_FINISH_CONTEXT:
        return RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_LENGTH;
    case RANK_FINISH_CANCELLED:
        return RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_CANCELLED;
    case RANK_FINISH_NOT:
        break;
    }
    BASE_ASSERT(finish != RANK_FINISH_NOT);
    return RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_NONE;
}

static bool send_verdict(const rank_worker *worker, const rank_request_event *event)
{
    Ringfence__Control__Verdict verdict = RINGFENCE__CONTROL__VERDICT__INIT;
    verdict.id = event->id;
    verdict.refused = (char *)(uintptr_t)event->refused;
    verdict.prompt_tokens = (uint32_t)event->prompt_tokens;
    return proto_client_event(worker->client, &verdict.base);
}

static bool send_tokens(const rank_worker *worker, const rank_request_event *event)
{
    Ringfence__Control__Tokens tokens = RINGFENCE__CONTROL__TOKENS__INIT;
    tokens.id = event->id;
    tokens.n_token_ids = event->token_count;
    tokens.token_ids = (int32_t *)(uintptr_t)event->tokens;
    tokens.text = (char *)(uintptr_t)event->text;
    tokens.n_text_bytes = event->token_count;
    tokens.text_bytes = (uint32_t *)(uintptr_t)event->text_bytes;
    tokens.cached_tokens = (uint32_t)event->cached_tokens;
    ProtobufCBinaryData bytes[PROTO_EVENT_LOGPROBS_MAX];
    const rank_event_logprobs *logprobs = event->logprobs;
    if (logprobs != NULL) {
        for (size_t i = 0; i < logprobs->count; i++) {
            bytes[i] = (ProtobufCBinaryData){logprobs->byte_counts[i],
                                             (uint8_t *)(uintptr_t)logprobs->bytes[i]};
        }
        tokens.n_logprob_ids = logprobs->count;
        tokens.logprob_ids = (int32_t *)(uintptr_t)logprobs->tokens;
        tokens.n_logprobs = logprobs->count;
        tokens.logprobs = (double *)(uintptr_t)logprobs->values;
        tokens.n_logprob_bytes = logprobs->count;
        tokens.logprob_bytes = bytes;
    }
    return proto_client_event(worker->client, &tokens.base);
}

static bool send_answered(const rank_worker *worker, const rank_request_event *event)
{
    Ringfence__Control__Answered answered = RINGFENCE__CONTROL__ANSWERED__INIT;
    answered.id = event->id;
    answered.finish_reason = reason_of(event->finish);
    answered.completion_tokens = (uint32_t)event->completion_tokens;
    answered.queued_ns = event->queued_ns;
    answered.ttft_ns = event->ttft_ns;
    answered.decode_ns = event->decode_ns;
    answered.drawn = (uint32_t)event->drawn;
    answered.cached_tokens = (uint32_t)event->cached_tokens;
    answered.drafted = (uint32_t)event->drafted;
    answered.accepted = (uint32_t)event->accepted;
    answered.preempted = (uint32_t)event->preempted;
    return proto_client_event(worker->client, &answered.base);
}

static bool send_event(void *user, const rank_request_event *event)
{
    const rank_worker *worker = user;
    switch (event->kind) {
    case RANK_EVENT_VERDICT:
        return send_verdict(worker, event);
    case RANK_EVENT_TOKENS:
        return send_tokens(worker, event);
    case RANK_EVENT_ANSWERED:
        break;
    }
    return send_answered(worker, event);
}

rank_request_source rank_requests_link(rank_worker *worker)
{
    return (rank_request_source){
        .user = worker, .take = take, .wait = wait_for_work, .send = send_event};
}
