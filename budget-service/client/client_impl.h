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
};

typedef Ringfence__Budget__Request budget_wire_request;
typedef Ringfence__Budget__Response budget_wire_response;

/* A request whose body is `field`, and the cases of bodies by their short names. */
#define BUDGET_REQUEST(name)  RINGFENCE__BUDGET__REQUEST__BODY_##name
#define BUDGET_RESPONSE(name) RINGFENCE__BUDGET__RESPONSE__BODY_##name

/* Asks with the body that the caller has set: id, version and what is remembered are filled in. On
 * BUDGET_GRANTED the answer's body is of answer_case, and lives until the next question. */
BASE_MUST_CHECK budget_verdict budget_ask_service(budget_client *client,
                                                  Ringfence__Budget__Request *request,
                                                  Ringfence__Budget__Response__BodyCase answer_case,
                                                  Ringfence__Budget__Response **response,
                                                  base_error *why);

/* What an answer's verdict means to the caller; *why gets its reason. */
budget_verdict budget_response_verdict(const Ringfence__Budget__Response *response,
                                       base_error *why);

/* Copies a text of an answer; false when it does not fit. */
bool budget_copy_text(char *into, size_t into_bytes, const char *text);

bool budget_account_from(const Ringfence__Budget__Account *from, budget_account *account);
bool budget_entry_from(const Ringfence__Budget__Entry *from, budget_entry *entry);

/* BUDGET_UNKNOWN: the service says that it was done, and what it says of it makes no sense. */
budget_verdict budget_broken_answer(base_error *why);

/* A text as protobuf-c wants it: it does not write to what is packed. NULL becomes "". */
char *budget_wire_text(const char *text);

/* 16 random bytes in hex. */
void budget_fresh_request_id(char request_id[BUDGET_REQUEST_ID_BYTES]);

/* DIR/NAME, BASE_ERR_LIMIT when it is too long. */
BASE_MUST_CHECK base_status budget_path_join(const char *dir, const char *name,
                                             char path[BASE_PATH_BYTES], base_error *reterr);

#endif
