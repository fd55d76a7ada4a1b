/* A message of the control plane, from the launcher or from a rank, as the first byte says: it is
 * refused with a reason, or it is within all limits. A request becomes a struct that packs to the
 * same request again. */
#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "proto/envelope.h"
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
    if (proto_request_from_message(message, &request, &error) != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0');
        return;
    }
    BASE_ASSERT(request.id > 0);
    BASE_ASSERT(request.text_bytes <= PROTO_PROMPT_BYTES_MAX);
    BASE_ASSERT(request.token_count <= PROTO_PROMPT_TOKENS_MAX);
    BASE_ASSERT(request.token_count > 0 ||
                base_utf8_valid(request.prompt.text, request.text_bytes));
    proto_request_to_message(&request, &sent);
    const base_status status = proto_request_from_message(&sent, &again, &error);
    BASE_ASSERT(status == BASE_OK);
    const size_t bytes = proto_request_bytes(&request);
    BASE_ASSERT(bytes == proto_request_bytes(&again));
    BASE_ASSERT(memcmp(&request, &again, bytes) == 0);
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
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ANSWERED:
        BASE_ASSERT(proto_finish_name((int)envelope->answered->finish_reason) != NULL);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ROSTER:
        BASE_ASSERT(envelope->roster->n_peers == WORLD);
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
    const bool launcher = data[0] % 2 == 0;
    uint8_t *message = malloc(size_bytes); /* heap, so that its end is watched */
    BASE_ASSERT(message != NULL);
    memcpy(message, data + 1, size_bytes - 1);
    const proto_envelope_source source = {
        .from = launcher ? PROTO_SIDE_LAUNCHER : PROTO_SIDE_RANK,
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
