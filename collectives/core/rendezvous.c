/* Exchanges records between ranks that make a context, and what has failed before. Called by the
 * transports' open. */
#include "core/rendezvous.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "core/text.h"
#include "ringfence/coll_error.h"

/* A rank that has failed waits for the others no longer: they are about to come, or are gone. */
#define FAILED_WAIT_NS (5 * BASE_NS_PER_S)

/* Before each record. */
typedef struct record_head {
    int32_t status; /* 0, or a coll_status: the record holds nothing */
    char text[COLL_FAILED_TEXT_BYTES];
} record_head;

_Static_assert(sizeof(record_head) == COLL_RENDEZVOUS_HEAD_BYTES, "as tests and WIRE.md have it");

static coll_status read_record(const coll_context *context, int rank, const uint8_t *record,
                               coll_error *reterr)
{
    char name[160];
    record_head head;
    memcpy(&head, record, sizeof head);
    if (head.status == COLL_OK) {
        return COLL_OK;
    }
    head.text[sizeof head.text - 1] = '\0';
    coll_text_clean(head.text);
    coll_context_rank_text(context, rank, name, sizeof name);
    return coll_fail(reterr, COLL_ERR_PEER, "%s failed: %s", name, head.text);
}

coll_status coll_rendezvous(coll_context *context, const coll_rendezvous_part *part,
                            coll_error *reterr)
{
    enum { RECORD_BYTES_MAX = sizeof(record_head) + COLL_RENDEZVOUS_PART_BYTES_MAX };
    uint8_t mine[RECORD_BYTES_MAX] = {0};
    uint8_t all[COLL_RANKS_MAX * RECORD_BYTES_MAX];
    const size_t record_bytes = sizeof(record_head) + part->size_bytes;
    BASE_ASSERT(record_bytes <= sizeof mine);
    const int64_t failed_ns = base_deadline_after_ns(FAILED_WAIT_NS);
    const bool failed = part->status != COLL_OK;
    const coll_error own = *reterr;
    context->has_met = false;
    record_head head = {.status = part->status};
    if (failed) {
        (void)snprintf(head.text, sizeof head.text, "%s", own.message);
    } else {
        memcpy(mine + sizeof head, part->mine, part->size_bytes);
    }
    memcpy(mine, &head, sizeof head);
    coll_status status = part->options->exchange(
        part->options->exchange_user, mine, all, record_bytes,
        failed && failed_ns < part->deadline_ns ? failed_ns : part->deadline_ns, reterr);
    if (failed) {
        *reterr = own;
        status = part->status;
    }
    for (int rank = 0; status == COLL_OK && rank < context->size; rank++) {
        const uint8_t *record = all + (size_t)rank * record_bytes;
        status = read_record(context, rank, record, reterr);
        memcpy((uint8_t *)part->all + (size_t)rank * part->size_bytes, record + sizeof head,
               part->size_bytes);
    }
    context->has_met = status == COLL_OK;
    explicit_bzero(mine, sizeof mine); /* shares of the job's key are among them */
    explicit_bzero(all, sizeof all);
    return status;
}
