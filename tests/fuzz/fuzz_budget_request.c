/* Any bytes are a Request or refused, and a Response or refused; what is taken is packed again, and
 * that is taken as well. */
#include <budget.pb-c.h>
#include <string.h>

#include "base/assert.h"
#include "budget/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static proto_arena arena;
static uint8_t packed[BUDGET_MESSAGE_BYTES_MAX];

static void try_request(const uint8_t *data, size_t size_bytes)
{
    Ringfence__Budget__Request *request = NULL;
    if (budget_request_unpack(data, size_bytes, &arena, &request, NULL) != BASE_OK) {
        return;
    }
    BASE_ASSERT(budget_request_id_ok(request->request_id));
    BASE_ASSERT(strcmp(budget_request_name(request), "empty") != 0);
    const size_t packed_bytes = ringfence__budget__request__get_packed_size(request);
    BASE_ASSERT(packed_bytes <= sizeof packed);
    (void)ringfence__budget__request__pack(request, packed);
    BASE_ASSERT(budget_request_unpack(packed, packed_bytes, &arena, &request, NULL) == BASE_OK);
}

static void try_response(const uint8_t *data, size_t size_bytes)
{
    Ringfence__Budget__Response *response = NULL;
    if (budget_response_unpack(data, size_bytes, &arena, &response, NULL) != BASE_OK) {
        return;
    }
    const size_t packed_bytes = ringfence__budget__response__get_packed_size(response);
    BASE_ASSERT(packed_bytes <= sizeof packed);
    (void)ringfence__budget__response__pack(response, packed);
    BASE_ASSERT(budget_response_unpack(packed, packed_bytes, &arena, &response, NULL) == BASE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (arena.data == NULL) {
        BASE_ASSERT(proto_arena_init(&arena, BUDGET_ARENA_BYTES, NULL) == BASE_OK);
    }
    try_request(data, size_bytes);
    try_response(data, size_bytes);
    return 0;
}
