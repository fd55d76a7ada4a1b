/* Unpacks an Envelope of control.proto and checks its version, body, sizes and texts. Called by
 * bus.c for each message received, and to name bodies in errors. */
#include "proto/envelope.h"

#include <control.pb-c.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "envelope_hosts.h"
#include "proto/body.h"
#include "proto/digest.h"
#include "proto/limits.h"

typedef Ringfence__Control__Envelope envelope_type;

static bool is_control(const unsigned char *at, size_t length)
{
    return (at[0] < 0x20 && at[0] != '\n' && at[0] != '\t') || at[0] == 0x7f ||
           (length == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

static void mend(char *text, bool controls)
{
    unsigned char *at = (unsigned char *)text;
    while (*at != '\0') {
        const size_t length = base_utf8_length((const char *)at, SIZE_MAX);
        if (length == 0 || (!controls && is_control(at, length))) {
            *at = '?';
            at++;
        } else {
            at += length;
        }
    }
}

void proto_text_tame(char *text)
{
    mend(text, false);
}

/* Whether a text is short enough. Also tames it. */
bool proto_text_fits(char *text, size_t bytes_max)
{
    if (strlen(text) > bytes_max) {
        return false;
    }
    proto_text_tame(text);
    return true;
}

static bool join_fits(Ringfence__Control__Join *join, int world_size)
{
    return join->rank < (uint32_t)world_size && join->world_size == (uint32_t)world_size &&
           join->pid > 0 && proto_text_fits(join->hostname, BASE_HOSTNAME_BYTES - 1) &&
           proto_text_fits(join->build, PROTO_NAME_BYTES_MAX);
}

static bool exchanged_fits(const Ringfence__Control__Exchanged *exchanged, int world_size)
{
    if (exchanged->n_parts != (size_t)world_size) {
        return false;
    }
    for (size_t i = 0; i < exchanged->n_parts; i++) {
        if (exchanged->parts[i].len != exchanged->parts[0].len || exchanged->parts[i].len == 0 ||
            exchanged->parts[i].len > PROTO_EXCHANGE_BYTES_MAX) {
            return false;
        }
    }
    return true;
}

static bool ready_fits(const Ringfence__Control__Ready *ready)
{
    return ready->params_blake2b256.len == PROTO_DIGEST_BYTES &&
           proto_text_fits(ready->first_sentence, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(ready->transport, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(ready->algorithm, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(ready->instruction_set, PROTO_NAME_BYTES_MAX);
}

static bool gpu_fits(const Ringfence__Control__Gpu *gpu)
{
    return proto_text_fits(gpu->name, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(gpu->uuid, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(gpu->plugin, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(gpu->libraries, PROTO_GPU_TEXT_BYTES_MAX) &&
           proto_text_fits(gpu->environment, PROTO_GPU_TEXT_BYTES_MAX) &&
           proto_text_fits(gpu->pci, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(gpu->unbound, PROTO_NAME_BYTES_MAX) &&
           gpu->cpus.len <= PROTO_CPU_BITS_BYTES_MAX;
}

static bool experts_fit(const Ringfence__Control__Experts *experts)
{
    return experts->count > 0 && experts->count <= PROTO_EXPERTS_MAX &&
           experts->n_loads <= PROTO_LOADS_MAX && experts->n_loads % experts->count == 0;
}

static bool finished_fits(const Ringfence__Control__Finished *finished)
{
    bool fits =
        (finished->params_sha256.len == PROTO_DIGEST_BYTES || finished->params_sha256.len == 0) &&
        proto_text_fits(finished->products, PROTO_GPU_TEXT_BYTES_MAX) &&
        proto_text_fits(finished->capture_failure, BASE_ERROR_MESSAGE_BYTES) &&
        finished->n_memory <= PROTO_MEMORY_USES_MAX && finished->checkpoint_ns >= 0;
    for (size_t i = 0; fits && i < finished->n_memory; i++) {
        fits = proto_text_fits(finished->memory[i]->purpose, PROTO_MEMORY_NAME_BYTES_MAX);
    }
    fits = fits && finished->n_state <= PROTO_MEMORY_USES_MAX &&
           finished->n_exchanges <= PROTO_EXCHANGE_USES_MAX &&
           (finished->experts == NULL || experts_fit(finished->experts));
    for (size_t i = 0; fits && i < finished->n_state; i++) {
        fits = proto_text_fits(finished->state[i]->purpose, PROTO_MEMORY_NAME_BYTES_MAX);
    }
    for (size_t i = 0; fits && i < finished->n_exchanges; i++) {
        fits = proto_text_fits(finished->exchanges[i]->kind, PROTO_MEMORY_NAME_BYTES_MAX);
    }
    return fits;
}

static bool failed_fits(const Ringfence__Control__Failed *failed)
{
    return failed->exit_code >= 0 && failed->exit_code <= 255 &&
           failed->unreached <= BASE_RANKS_MAX &&
           proto_text_fits(failed->collective, PROTO_REASON_BYTES_MAX) &&
           proto_text_fits(failed->message, PROTO_REASON_BYTES_MAX);
}

static bool step_fits(const Ringfence__Control__Step *step)
{
    return step->compute_ns >= 0 && step->allreduce_ns >= 0 && step->allreduce_exposed_ns >= 0 &&
           step->optimizer_ns >= 0 && step->step_ns >= 0 && step->compute_cpu_ns >= 0 &&
           step->forward_ns >= 0 && step->backward_ns >= 0 && step->neighbour_ns >= 0 &&
           step->stage_span_ns >= 0 && step->weights_ns >= 0 && step->tensor_ns >= 0 &&
           step->context_ns >= 0 && step->barrier_ns >= 0 && step->expert_ns >= 0 &&
           step->heldout_correct <= step->heldout_sentences;
}

static bool ids_fit(const int32_t *ids, size_t count, size_t count_max)
{
    bool fit = count <= count_max;
    for (size_t i = 0; fit && i < count; i++) {
        fit = ids[i] >= 0 && ids[i] < PROTO_VOCAB_MAX;
    }
    return fit;
}

/* proto_request_from_message looks at the rest. A prompt is not for a terminal, so it stays as it
 * is. */
static bool request_fits(const Ringfence__Control__Request *request)
{
    return request->id > 0 && strlen(request->prompt) <= PROTO_PROMPT_BYTES_MAX &&
           ids_fit(request->prompt_token_ids, request->n_prompt_token_ids,
                   PROTO_PROMPT_TOKENS_MAX) &&
           request->n_chat <= PROTO_CHAT_TEXTS_MAX &&
           ids_fit(request->stop_token_ids, request->n_stop_token_ids, PROTO_STOP_TOKENS_MAX);
}

/* The log-probabilities of a Tokens: as many of each token, its own first. */
static bool logprobs_fit(const Ringfence__Control__Tokens *tokens)
{
    const size_t count = tokens->n_logprob_ids;
    const size_t each = tokens->n_token_ids > 0 ? count / tokens->n_token_ids : 0;
    const size_t text_bytes = strlen(tokens->text);
    size_t of_tokens = 0;
    bool fit = count <= PROTO_EVENT_LOGPROBS_MAX && each <= PROTO_LOGPROBS_MAX &&
               count == each * tokens->n_token_ids && tokens->n_logprobs == count &&
               tokens->n_logprob_bytes == count && tokens->n_text_bytes == tokens->n_token_ids;
    for (size_t i = 0; fit && i < count; i++) {
        const int32_t id = tokens->logprob_ids[i];
        fit = id >= -1 && id < PROTO_VOCAB_MAX &&
              (i % each != 0 || id == tokens->token_ids[i / each]) &&
              isfinite(tokens->logprobs[i]) && tokens->logprobs[i] <= 0 &&
              tokens->logprob_bytes[i].len <= PROTO_TOKEN_BYTES_MAX;
    }
    for (size_t i = 0; fit && i < tokens->n_text_bytes; i++) {
        of_tokens += tokens->text_bytes[i];
        fit = of_tokens <= text_bytes;
    }
    return fit;
}

static bool tokens_fit(const Ringfence__Control__Tokens *tokens)
{
    if (strlen(tokens->text) > PROTO_EVENT_TEXT_BYTES_MAX) {
        return false;
    }
    mend(tokens->text, true); /* who prints it tames it */
    return tokens->id > 0 && tokens->cached_tokens < PROTO_CONTEXT_MAX &&
           ids_fit(tokens->token_ids, tokens->n_token_ids, PROTO_EVENT_TOKENS_MAX) &&
           logprobs_fit(tokens);
}

static bool answered_fits(const Ringfence__Control__Answered *answered)
{
    return answered->id > 0 &&
           answered->finish_reason >= RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_STOP &&
           answered->finish_reason <= RINGFENCE__CONTROL__FINISH_REASON__FINISH_REASON_CANCELLED &&
           answered->completion_tokens <= answered->drawn &&
           answered->drawn <= PROTO_NEW_TOKENS_MAX && answered->accepted <= answered->drafted &&
           answered->accepted <= answered->drawn && answered->cached_tokens < PROTO_CONTEXT_MAX &&
           answered->queued_ns >= 0 && answered->ttft_ns >= 0 && answered->decode_ns >= 0;
}

/* Checks the bodies that a rank may send about requests. */
static bool event_fits(const envelope_type *envelope)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_VERDICT:
        return envelope->verdict->id > 0 &&
               proto_text_fits(envelope->verdict->refused, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_TOKENS:
        return tokens_fit(envelope->tokens);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ANSWERED:
        return answered_fits(envelope->answered);
    default:
        return false;
    }
}

/* Checks the bodies that a rank may send. */
static bool rank_body_fits(const envelope_type *envelope, int world_size)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN:
        return join_fits(envelope->join, world_size);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXCHANGE:
        return envelope->exchange->part.len > 0 &&
               envelope->exchange->part.len <= PROTO_EXCHANGE_BYTES_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_READY:
        return ready_fits(envelope->ready);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STEP:
        return step_fits(envelope->step);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_OUTPUT:
        return proto_text_fits(envelope->output->text, PROTO_TEXT_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_LOADED:
        return true;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_GPU:
        return gpu_fits(envelope->gpu);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PIECE:
        return envelope->piece->answered <= envelope->piece->prompts &&
               envelope->piece->prompts <= PROTO_PROMPTS_MAX &&
               proto_text_fits(envelope->piece->text, PROTO_TEXT_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FAILED:
        return failed_fits(envelope->failed);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FLIGHT:
        return envelope->flight->piece.len <= PROTO_FLIGHT_PIECE_BYTES_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FINISHED:
        return finished_fits(envelope->finished);
    default:
        return event_fits(envelope);
    }
}

/* Checks the bodies that the launcher may send. */
static bool launcher_body_fits(const envelope_type *envelope, int world_size)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ROSTER:
        return true;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXCHANGED:
        return exchanged_fits(envelope->exchanged, world_size);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ABORT:
        return proto_text_fits(envelope->abort->reason, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STOP:
        return proto_text_fits(envelope->stop->reason, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REQUEST:
        return request_fits(envelope->request);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CANCEL:
        return envelope->cancel->id > 0;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PAUSE:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_GOODBYE:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_DUMP:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_DRAIN:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CREDIT:
        return true;
    default:
        return false;
    }
}

static bool body_fits(const envelope_type *envelope, const proto_envelope_source *source)
{
    switch (source->from) {
    case PROTO_SIDE_RANK:
        return rank_body_fits(envelope, source->world_size);
    case PROTO_SIDE_LAUNCHER:
        return launcher_body_fits(envelope, source->world_size);
    case PROTO_SIDE_AGENT:
        return proto_agent_body_fits(envelope, source->world_size);
    case PROTO_SIDE_HEAD:
        return proto_head_body_fits(envelope);
    }
    return false;
}

/* Who sends, and who receives it. */
static const struct {
    const char *name;
    const char *other;
} sides[] = {
    [PROTO_SIDE_LAUNCHER] = {"the launcher", "the rank"},
    [PROTO_SIDE_RANK] = {"the rank", "the launcher"},
    [PROTO_SIDE_HEAD] = {"the head", "the agent"},
    [PROTO_SIDE_AGENT] = {"the agent", "the head"},
};

base_status proto_envelope_unpack(const void *data, size_t size_bytes,
                                  const proto_envelope_source *source, envelope_type **envelope,
                                  base_error *reterr)
{
    source->arena->used_bytes = 0;
    ProtobufCAllocator allocator = {proto_arena_alloc, proto_arena_free, source->arena};
    envelope_type *message = ringfence__control__envelope__unpack(&allocator, size_bytes, data);
    if (message == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a message of %zu bytes that is not an Envelope of control.proto",
                         size_bytes);
    }
    const base_status status =
        proto_version_check(sides[source->from].name, message->version, sides[source->from].other,
                            PROTO_CONTROL_VERSION, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!body_fits(message, source)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a message \"%s\" of %zu bytes that breaks the control protocol",
                         proto_envelope_name(message), size_bytes);
    }
    *envelope = message;
    return BASE_OK;
}

const char *proto_envelope_name(const envelope_type *envelope)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &ringfence__control__envelope__descriptor, (unsigned)envelope->body_case);
    return field != NULL && envelope->body_case != 0 ? field->name : "empty";
}
