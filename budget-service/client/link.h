/* One question, one answer: a request sent over CURVE, again over a new connection when one breaks,
 * until it is answered or the deadline has passed. Not shared between threads. */
#ifndef BUDGET_LINK_H
#define BUDGET_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/arena.h"
#include "proto/key.h"

struct Ringfence__Budget__Response;

typedef struct budget_link {
    char endpoint[BASE_PATH_BYTES];
    proto_keypair keys; /* ours; a secret */
    uint8_t service_public_key[PROTO_KEY_BYTES];
    void *context;
    void *socket; /* NULL: not connected */
    void *monitor;
    proto_arena arena;
} budget_link;

typedef enum budget_link_result {
    BUDGET_LINK_ANSWERED,
    BUDGET_LINK_NOT_DONE, /* the request has never left, or only for a service of another version */
    BUDGET_LINK_NO_ANSWER /* it was sent, and what became of it is not known */
} budget_link_result;

/* keys and service_public_key are copied; connects at the first question. BASE_ERR_LIMIT: an ipc
 * path too long for a socket. */
BASE_MUST_CHECK base_status budget_link_open(budget_link *link, const char *endpoint,
                                             const proto_keypair *keys,
                                             const uint8_t service_public_key[PROTO_KEY_BYTES],
                                             base_error *reterr);

/* Wipes the keys. A zeroed link is fine. */
void budget_link_close(budget_link *link);

typedef struct budget_question {
    const void *request; /* packed */
    size_t request_bytes;
    const char *request_id; /* the answer's as well */
    int64_t deadline_ns;
} budget_question;

/* Blocks until the deadline. *response lives until the next question. */
BASE_MUST_CHECK budget_link_result budget_link_ask(budget_link *link,
                                                   const budget_question *question,
                                                   struct Ringfence__Budget__Response **response,
                                                   base_error *why);

#endif
