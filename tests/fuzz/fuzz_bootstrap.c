/* What a stranger may send to rank 0 of a bootstrap, and one rank to another: no bytes are a hello's tag
 * under a secret, and texts end where they must. */
#include <string.h>

#include "base/assert.h"
#include "bootstrap/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_opening(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t key[COLL_JOB_KEY_BYTES] = {5};
    uint8_t opening[COLL_OPENING_BYTES] = {0};
    coll_hello theirs;
    coll_bootstrap_reason reason = (coll_bootstrap_reason)0;
    memcpy(opening, data, size_bytes < sizeof opening ? size_bytes : sizeof opening);
    const coll_bootstrap_verdict verdict =
        coll_bootstrap_judge(key, true, opening, &theirs, &reason);
    BASE_ASSERT(verdict != COLL_BOOTSTRAP_ADMIT);
    BASE_ASSERT((verdict == COLL_BOOTSTRAP_REFUSE) == (reason != 0));
}

static void check_head(const uint8_t *data, size_t size_bytes)
{
    coll_frame_head head = {.magic = 0};
    memcpy(&head, data, size_bytes < sizeof head ? size_bytes : sizeof head);
    if (coll_bootstrap_head_is_sound(&head, 0, COLL_BOOTSTRAP_GIVE_BYTES_MAX)) {
        BASE_ASSERT(head.number == 0 && head.body_bytes <= COLL_BOOTSTRAP_GIVE_BYTES_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    coll_bootstrap_process process;
    coll_bootstrap_roster roster;
    coll_bootstrap_failure failure;
    BASE_ASSERT(sodium_init() >= 0);
    check_opening(data, size_bytes);
    check_head(data, size_bytes);
    if (coll_bootstrap_process_read(data, size_bytes, &process)) {
        BASE_ASSERT(strlen(process.host) < sizeof process.host);
    }
    if (coll_bootstrap_roster_read(data, size_bytes, &roster)) {
        BASE_ASSERT(strlen(roster.process.host) < sizeof roster.process.host);
        BASE_ASSERT(strlen(roster.address) < sizeof roster.address);
    }
    if (coll_bootstrap_failure_read(data, size_bytes, &failure)) {
        BASE_ASSERT(failure.status < 0 && strlen(failure.message) < sizeof failure.message);
        BASE_ASSERT(strlen(failure.process.host) < sizeof failure.process.host);
    }
    return 0;
}
