/* A message of the control plane, from the launcher, a rank, the head or an agent, as the first byte
 * says: it is refused with a reason, or it is within all limits. A request becomes a struct that packs to the
 * same request again. */
#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "proto/digest.h"
#include "proto/envelope.h"
#include "proto/key.h"
#include "proto/limits.h"
#include "proto/request.h"

enum { WORLD = 2, ARENA_BYTES = 4 * PROTO_RANK_MESSAGE_BYTES_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_request(const Ringfence__Control__Request *message)
{
    static proto_request request;
    static proto_request again;
    base_error error = {.message = ""};
    Ringfence__Control__Request sent;
    char *texts[PROTO_CHAT_TEXTS_MAX];
    if (proto_request_from_message(message, &request, &error) != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0');
        return;
    }
    BASE_ASSERT(request.id > 0);
    BASE_ASSERT(request.text_bytes <= PROTO_PROMPT_BYTES_MAX);
    BASE_ASSERT(request.token_count <= PROTO_PROMPT_TOKENS_MAX);
    BASE_ASSERT(request.message_count <= PROTO_CHAT_MESSAGES_MAX);
    BASE_ASSERT(request.token_count > 0 ||
                base_utf8_valid(request.prompt.text, request.text_bytes));
    proto_request_to_message(&request, &sent, texts);
    const base_status status = proto_request_from_message(&sent, &again, &error);
    BASE_ASSERT(status == BASE_OK);
    const size_t bytes = proto_request_bytes(&request);
    BASE_ASSERT(bytes == proto_request_bytes(&again));
    BASE_ASSERT(memcmp(&request, &again, bytes) == 0);
}

/* Its name leads nowhere else. */
static void check_file(const Ringfence__Control__File *file)
{
    BASE_ASSERT(strlen(file->key) <= PROTO_FILE_KEY_BYTES_MAX);
    BASE_ASSERT(strlen(file->name) < PROTO_NAME_BYTES_MAX);
    BASE_ASSERT(strchr(file->name, '/') == NULL && strcmp(file->name, "..") != 0);
    BASE_ASSERT(file->sha256.len == PROTO_DIGEST_BYTES);
    BASE_ASSERT(file->size_bytes <= INT64_MAX);
}

/* There are as many of each token. */
static void check_logprobs(const Ringfence__Control__Tokens *tokens)
{
    const size_t count = tokens->n_logprob_ids;
    BASE_ASSERT(count <= PROTO_EVENT_LOGPROBS_MAX);
    BASE_ASSERT(count == tokens->n_logprobs && count == tokens->n_logprob_bytes);
    BASE_ASSERT(count == 0 || (tokens->n_token_ids > 0 && count % tokens->n_token_ids == 0 &&
                               count / tokens->n_token_ids <= PROTO_LOGPROBS_MAX));
    BASE_ASSERT(tokens->n_text_bytes == tokens->n_token_ids);
    for (size_t i = 0; i < count; i++) {
        BASE_ASSERT(tokens->logprobs[i] <= 0);
        BASE_ASSERT(tokens->logprob_bytes[i].len <= PROTO_TOKEN_BYTES_MAX);
    }
}

static void check(const Ringfence__Control__Envelope *envelope)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REQUEST:
        read_request(envelope->request);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_TOKENS:
        BASE_ASSERT(envelope->tokens->n_token_ids <= PROTO_EVENT_TOKENS_MAX);
        BASE_ASSERT(strlen(envelope->tokens->text) <= PROTO_EVENT_TEXT_BYTES_MAX);
        check_logprobs(envelope->tokens);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ANSWERED:
        BASE_ASSERT(proto_finish_name((int)envelope->answered->finish_reason) != NULL);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ENROLL:
        BASE_ASSERT(envelope->enroll->node > 0 && envelope->enroll->node < WORLD);
        BASE_ASSERT(strlen(envelope->enroll->hostname) < BASE_HOSTNAME_BYTES);
        BASE_ASSERT(envelope->enroll->flag_digests.len <=
                    PROTO_FLAG_DIGESTS_MAX * PROTO_FLAG_DIGEST_BYTES);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN:
        BASE_ASSERT(envelope->assign->first_rank + envelope->assign->ranks <=
                    envelope->assign->world_size);
        BASE_ASSERT(envelope->assign->n_files <= PROTO_FILES_MAX);
        for (size_t i = 0; i < envelope->assign->n_files; i++) {
            check_file(envelope->assign->files[i]);
        }
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXITED:
        if (envelope->exited->state != NULL) {
            check_file(envelope->exited->state);
        }
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH:
        BASE_ASSERT(envelope->fetch->offset <= INT64_MAX);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK:
        BASE_ASSERT(envelope->chunk->data.len > 0);
        BASE_ASSERT(envelope->chunk->data.len <= PROTO_CHUNK_BYTES_MAX);
        BASE_ASSERT(envelope->chunk->offset + envelope->chunk->data.len <= INT64_MAX);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT:
        BASE_ASSERT(envelope->heartbeat->have_bytes <= envelope->heartbeat->files_bytes);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_BEGIN:
        BASE_ASSERT(envelope->begin->rank_seed.len == PROTO_KEY_BYTES);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PRINTED:
        BASE_ASSERT(envelope->printed->data.len <= PROTO_PRINTED_BYTES_MAX);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static proto_arena arena;
    base_error error = {.message = ""};
    Ringfence__Control__Envelope *envelope = NULL;
    if (arena.data == NULL) {
        const base_status made = proto_arena_init(&arena, ARENA_BYTES, &error);
        BASE_ASSERT(made == BASE_OK);
    }
    if (size_bytes == 0) {
        return 0;
    }
    static const proto_side sides[] = {PROTO_SIDE_LAUNCHER, PROTO_SIDE_RANK, PROTO_SIDE_HEAD,
                                       PROTO_SIDE_AGENT};
    uint8_t *message = malloc(size_bytes); /* heap, so that its end is watched */
    BASE_ASSERT(message != NULL);
    memcpy(message, data + 1, size_bytes - 1);
    const proto_envelope_source source = {
        .from = sides[data[0] % (sizeof sides / sizeof sides[0])],
        .world_size = WORLD,
        .arena = &arena,
    };
    if (proto_envelope_unpack(message, size_bytes - 1, &source, &envelope, &error) == BASE_OK) {
        check(envelope);
    } else {
        BASE_ASSERT(error.message[0] != '\0');
    }
    free(message);
    return 0;
}
