/* Builds the packed answer to one request, verdict and parts. Called by the request handlers and by
 * batch.c. */
#include "item.h"

#include <stdlib.h>
#include <string.h>

#include "budget/wire.h"
#include "proto/body.h"

void service_item_reset(service_item *item)
{
    if (item->packed_bytes_max > SERVICE_ITEM_KEEP_BYTES) {
        free(item->packed);
        item->packed = NULL;
        item->packed_bytes_max = 0;
    }
    item->packed_bytes = 0;
    item->stage = SERVICE_PACKED;
    item->asker = (service_asker){0};
    item->receipts = 0;
    item->answer = (budget_answer){0};
}

void service_item_fini(service_item *item)
{
    free(item->packed);
    *item = (service_item){0};
}

base_status service_item_put(service_item *item, const Ringfence__Budget__Response *part,
                             base_error *reterr)
{
    const size_t part_bytes = ringfence__budget__response__get_packed_size(part);
    const size_t wanted_bytes = item->packed_bytes + part_bytes;
    if (wanted_bytes > BUDGET_MESSAGE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "an answer of %zu bytes", wanted_bytes);
    }
    if (wanted_bytes > item->packed_bytes_max) {
        const size_t grown_bytes = wanted_bytes + wanted_bytes / 2 + 256;
        uint8_t *grown = realloc(item->packed, grown_bytes);
        if (grown == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an answer");
        }
        item->packed = grown;
        item->packed_bytes_max = grown_bytes;
    }
    item->packed_bytes +=
        ringfence__budget__response__pack(part, item->packed + item->packed_bytes);
    return BASE_OK;
}

base_status service_item_done(service_item *item, ProtobufCMessage *body, base_error *reterr)
{
    Ringfence__Budget__Response part = RINGFENCE__BUDGET__RESPONSE__INIT;
    item->packed_bytes = 0;
    item->stage = SERVICE_PACKED;
    part.verdict = RINGFENCE__BUDGET__VERDICT__VERDICT_DONE;
    proto_set_body(&part.base, body);
    return service_item_put(item, &part, reterr);
}

base_status service_item_refuse(service_item *item, Ringfence__Budget__Verdict verdict,
                                const char *message, base_error *reterr)
{
    char cut[BUDGET_TEXT_BYTES_MAX + 1];
    Ringfence__Budget__Response part = RINGFENCE__BUDGET__RESPONSE__INIT;
    size_t length = strlen(message);
    length = length < sizeof cut ? length : sizeof cut - 1;
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)message[i];
        cut[i] = byte < 0x20 || byte == 0x7f ? ' ' : message[i];
    }
    cut[length] = '\0';
    item->packed_bytes = 0;
    item->stage = SERVICE_PACKED;
    part.verdict = verdict;
    part.reason = cut;
    if (verdict == RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN) {
        part.code = (char *)(uintptr_t) "FORBIDDEN";
    }
    return service_item_put(item, &part, reterr);
}

static Ringfence__Budget__Verdict verdict_of(budget_reason reason)
{
    switch (reason) {
    case BUDGET_REASON_NONE:
        return RINGFENCE__BUDGET__VERDICT__VERDICT_DONE;
    case BUDGET_REASON_EXCEEDED:
        return RINGFENCE__BUDGET__VERDICT__VERDICT_EXCEEDED;
    case BUDGET_REASON_TOKEN_UNKNOWN:
    case BUDGET_REASON_TOKEN_EXPIRED:
    case BUDGET_REASON_DEADLINE_PASSED:
    case BUDGET_REASON_RANK_RANGE:
    case BUDGET_REASON_ATTEMPT_RANGE:
    case BUDGET_REASON_ATTEMPT_ORDER:
    case BUDGET_REASON_FENCED:
    case BUDGET_REASON_JOB_KEY:
        return RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN;
    default:
        return RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED;
    }
}

base_status service_item_answer(service_item *item, base_status status, base_error *reterr)
{
    const budget_answer *answer = &item->answer;
    Ringfence__Budget__Response part = RINGFENCE__BUDGET__RESPONSE__INIT;
    if (status == BASE_OK) {
        status = service_item_refuse(item, verdict_of(answer->reason), answer->message, reterr);
    }
    if (status != BASE_OK || answer->reason == BUDGET_REASON_NONE) {
        return status;
    }
    part.code = (char *)(uintptr_t)budget_reason_name(answer->reason);
    if (answer->reason == BUDGET_REASON_EXCEEDED) {
        part.account = (char *)(uintptr_t)answer->account;
        part.asked_usd_micro = answer->asked_usd_micro;
        part.left_usd_micro = answer->remaining_before_usd_micro;
    }
    return service_item_put(item, &part, reterr);
}
