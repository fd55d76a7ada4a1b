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
    memcpy(opening, data, size_bytes < sizeof opening ? size_bytes : sizeof opening);
    BASE_ASSERT(coll_bootstrap_judge(key, opening, &theirs) != COLL_BOOTSTRAP_ADMIT);
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
    coll_bootstrap_note note;
    BASE_ASSERT(sodium_init() >= 0);
    check_opening(data, size_bytes);
    check_head(data, size_bytes);
    if (coll_bootstrap_note_read(data, size_bytes, &note)) {
        BASE_ASSERT(note.status <= 0 && strlen(note.message) < sizeof note.message);
        BASE_ASSERT(strlen(note.process.host) < sizeof note.process.host);
        BASE_ASSERT(strlen(note.address) < sizeof note.address);
        BASE_ASSERT(coll_bootstrap_note_bytes(&note) <= sizeof note);
    }
    return 0;
}
