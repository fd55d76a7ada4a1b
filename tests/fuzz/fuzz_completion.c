/* Any bytes are the body of a completion or refused by an error that can be sent; a request that is
 * read is within the limits. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "serve/completion_body.h"
#include "serve/reply.h"
#include "serve/request_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_body(const uint8_t *data, size_t size_bytes, bool chat)
{
    static proto_job job;
    static launch_completion_body body;
    char field[LAUNCH_FIELD_BYTES];
    base_error error = {.message = ""};
    memset(&body, 0, sizeof body);
    body.chat = chat;
    proto_job_defaults(&job);
    launch_request_defaults(&job, &body.request);
    const base_status status =
        launch_completion_body_read((const char *)data, size_bytes, "model", &body, field, &error);
    if (status == BASE_OK) {
        BASE_ASSERT(body.prompt_count >= 1 && body.choices_each >= 1);
        BASE_ASSERT(body.prompt_count * body.choices_each <= LAUNCH_SERVE_CHOICES_MAX);
        for (int i = 0; i < body.prompt_count; i++) {
            const proto_request *request = body.requests[i];
            BASE_ASSERT(proto_request_check(request, NULL) == BASE_OK);
            BASE_ASSERT(request->text_bytes > 0 || request->token_count > 0);
            BASE_ASSERT((request->message_count > 0) == chat);
            BASE_ASSERT(request->logprob_count <= (chat ? PROTO_LOGPROBS_MAX : 6));
        }
        launch_completion_body_fini(&body);
        return;
    }
    launch_completion_body_fini(&body);
    BASE_ASSERT(error.message[0] != '\0');
    char *reply = launch_reply_error(400, field, error.message);
    BASE_ASSERT(reply != NULL);
    json_t *object = json_loads(reply, 0, NULL);
    BASE_ASSERT(object != NULL);
    json_decref(object);
    free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    read_body(data, size_bytes, false);
    read_body(data, size_bytes, true);
    return 0;
}
