/* One question on its way through a batch: who asked, and the answer, of which the last part (where
 * the ledger stands, signatures) is made only after the commit. Private to the server. */
#ifndef BUDGET_SERVER_ITEM_H
#define BUDGET_SERVER_ITEM_H

#include <budget.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/ledger.h"
#include "budget/receipt.h"
#include "limits.h"

typedef enum service_stage {
    SERVICE_PACKED,        /* the answer lacks its end only */
    SERVICE_SIGN_TOKEN,    /* a token is to be signed once it is on disk */
    SERVICE_SIGN_RECEIPTS, /* receipts are */
    SERVICE_LATER,         /* an audit answers when it is done */
} service_stage;

/* Whom an answer goes to, and what its end says. */
typedef struct service_asker {
    int endpoint; /* index of the socket it came from */
    uint8_t routing_id[SERVICE_ROUTING_ID_BYTES];
    size_t routing_id_bytes;
    char request_id[BUDGET_REQUEST_ID_BYTES];
    bool identified; /* the sender may know where the ledger stands */
    bool remembered; /* the row that the client remembers is ours: */
    uint8_t known_head[BUDGET_DIGEST_BYTES];
} service_asker;

typedef struct service_item {
    service_asker asker;
    service_stage stage;
    uint8_t *packed; /* (packed_bytes_max) parts of a Response, one behind the other */
    size_t packed_bytes;
    size_t packed_bytes_max;
    budget_answer answer;               /* the ledger's; SIGN_TOKEN */
    budget_authorization authorization; /* SIGN_TOKEN */
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_receipt receipt; /* SIGN_RECEIPTS: of the first rank */
    int receipts;
    int64_t seconds_left;
} service_item;

/* Forgets the answer, keeps the buffer. */
void service_item_reset(service_item *item);
void service_item_fini(service_item *item);

/* Appends parts of a Response: what is set in `part` joins what was set before. */
BASE_MUST_CHECK base_status service_item_put(service_item *item,
                                             const Ringfence__Budget__Response *part,
                                             base_error *reterr);

/* Begins the answer anew: granted, with this body. */
BASE_MUST_CHECK base_status service_item_done(service_item *item, ProtobufCMessage *body,
                                              base_error *reterr);

/* Begins the answer anew with a verdict and its message. */
BASE_MUST_CHECK base_status service_item_refuse(service_item *item,
                                                Ringfence__Budget__Verdict verdict,
                                                const char *message, base_error *reterr);

/* The verdict and the message of the ledger's answer, without a body. status is that of its operation;
 * a failure is passed on. */
BASE_MUST_CHECK base_status service_item_answer(service_item *item, base_status status,
                                                base_error *reterr);

#endif
