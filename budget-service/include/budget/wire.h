/* Requests and Responses of budget.proto on the edge: limits, and what is unpacked is checked.
 *
 * What comes out has the right version, an id of the right form, one body, texts of bounded length
 * without control characters, digests of the right size and bounded lists. What a field means is
 * checked where it is used. Unpacking takes its memory from an arena. Pure. */
#ifndef BUDGET_WIRE_H
#define BUDGET_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "proto/arena.h"

struct Ringfence__Budget__Request;
struct Ringfence__Budget__Response;

enum {
    BUDGET_WIRE_VERSION = 6,
    BUDGET_MESSAGE_BYTES_MAX = 1024 * 1024, /* either way, on the service's endpoint */
    BUDGET_REDEEM_BYTES_MAX = 8 * 1024,     /* a question on the redeem endpoint */
    BUDGET_ARENA_BYTES = 4 * 1024 * 1024,   /* the largest message, unpacked */
    BUDGET_TEXT_BYTES_MAX = 511,            /* any text but a token, a receipt or a line */
    BUDGET_LONG_TEXT_BYTES_MAX = 16 * 1024, /* those */
    BUDGET_LIST_MAX = 4096,                 /* lines of a bill; any other list is a page */
    BUDGET_REDEEM_RANKS_MAX = 64,           /* receipts in one answer */
    BUDGET_PAGE_MAX = 256,                  /* accounts, entries, events, clients in an answer */
};

/* The domains of admission: an allow-list, and anybody with a CURVE key. */
#define BUDGET_ZAP_DOMAIN        "ringfence-budget"
#define BUDGET_ZAP_DOMAIN_REDEEM "ringfence-redeem"

/* *request lives in the arena until its next use. BASE_ERR_INVALID says what is wrong,
 * BASE_ERR_UNSUPPORTED that the sender speaks another version, BASE_ERR_LIMIT that it is too large.
 * *request: NULL where it has no proper id; a refused one is for its id only, to answer with. */
BASE_MUST_CHECK base_status budget_request_unpack(const void *data, size_t size_bytes,
                                                  proto_arena *arena,
                                                  struct Ringfence__Budget__Request **request,
                                                  base_error *reterr);

BASE_MUST_CHECK base_status budget_response_unpack(const void *data, size_t size_bytes,
                                                   proto_arena *arena,
                                                   struct Ringfence__Budget__Response **response,
                                                   base_error *reterr);

/* 1 to 64 letters, digits, '.', '_' or '-'. */
bool budget_request_id_ok(const char *request_id);

/* "authorize", "record_actual", …: the name of the body's case; "empty" when there is none. */
const char *budget_request_name(const struct Ringfence__Budget__Request *request);

/* "ipc://PATH" whose path fits a Unix socket, or "tcp://ADDRESS:PORT", with a port from 0 to 65535,
 * or "*". BASE_ERR_LIMIT, BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status budget_endpoint_check(const char *endpoint, base_error *reterr);

#endif
