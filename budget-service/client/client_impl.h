/* What the client's files share: a client, and one question asked with it. */
#ifndef BUDGET_CLIENT_IMPL_H
#define BUDGET_CLIENT_IMPL_H

#include <budget.pb-c.h>

#include "budget/client.h"
#include "link.h"
#include "seen.h"

struct budget_client {
    budget_link link;
    budget_seen seen;
    int64_t timeout_ms;
    char request_id[BUDGET_REQUEST_ID_BYTES];      /* of the last question */
    char next_request_id[BUDGET_REQUEST_ID_BYTES]; /* "": a fresh one */
    budget_refusal refusal;
    budget_note note;
};

typedef Ringfence__Budget__Request budget_wire_request;
typedef Ringfence__Budget__Response budget_wire_response;

/* The case of an answer's body, by its short name. */
#define BUDGET_RESPONSE(name) RINGFENCE__BUDGET__RESPONSE__BODY_##name

/* Asks with this body, under the client's next request id. On BUDGET_GRANTED the answer's body is of
 * answer_case, and lives until the next question. */
BASE_MUST_CHECK budget_verdict budget_ask_service(budget_client *client, ProtobufCMessage *body,
                                                  Ringfence__Budget__Response__BodyCase answer_case,
                                                  Ringfence__Budget__Response **response,
                                                  base_error *why);

/* The same for a body whose answer has none. */
BASE_MUST_CHECK budget_verdict budget_tell_service(budget_client *client, ProtobufCMessage *body,
                                                   base_error *why);

/* A question whose answer comes in pages. */
typedef struct budget_pages {
    ProtobufCMessage *body;
    char **after; /* in body: the text after which the page begins */
    Ringfence__Budget__Response__BodyCase answer_case;
    budget_wire_response *response; /* the page */
    const char *next;               /* set by the caller: the page's text of that name */
    budget_verdict verdict;         /* how it ended */
    int count;
    char cursor[BUDGET_LABEL_BYTES];
} budget_pages;

/* Asks for the next page. False: there is none, and pages->verdict is the call's. */
bool budget_pages_next(budget_client *client, budget_pages *pages, base_error *why);

/* What an answer's verdict means to the caller; *why gets its reason. */
budget_verdict budget_response_verdict(const Ringfence__Budget__Response *response,
                                       base_error *why);

/* Copies a text of an answer; false when it does not fit. */
bool budget_copy_text(char *into, size_t into_bytes, const char *text);

/* BUDGET_UNKNOWN: the service says that it was done, and what it says of it makes no sense. */
budget_verdict budget_broken_answer(base_error *why);

/* A text as protobuf-c wants it: it does not write to what is packed. NULL becomes "". */
char *budget_wire_text(const char *text);

/* 16 random bytes in hex. */
void budget_fresh_request_id(char request_id[BUDGET_REQUEST_ID_BYTES]);

#endif
