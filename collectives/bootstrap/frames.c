/* Makes and checks what the ranks of a bootstrap say to each other. Called by admit.c, join.c and
 * link.c. */
#include "bootstrap/frames.h"

#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "core/text.h"

void coll_bootstrap_derive(const void *secret, size_t secret_bytes, const char *label,
                           uint8_t key[COLL_JOB_KEY_BYTES])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, COLL_JOB_KEY_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    if (secret_bytes > 0) {
        (void)crypto_generichash_update(&state, secret, secret_bytes);
    }
    (void)crypto_generichash_final(&state, key, COLL_JOB_KEY_BYTES);
    sodium_memzero(&state, sizeof state);
}

void coll_bootstrap_hello_make(coll_hello *hello, int rank, int peer, int world_size)
{
    coll_hello_make(hello, rank, peer, world_size, COLL_TCP_AUTH_ENCRYPT);
    hello->magic = COLL_BOOTSTRAP_MAGIC;
    hello->version = COLL_BOOTSTRAP_VERSION;
}

coll_bootstrap_verdict coll_bootstrap_judge(const uint8_t key[COLL_JOB_KEY_BYTES],
                                            const uint8_t opening[COLL_OPENING_BYTES],
                                            coll_hello *theirs)
{
    memcpy(theirs, opening, sizeof *theirs);
    if (theirs->magic != COLL_BOOTSTRAP_MAGIC) {
        return COLL_BOOTSTRAP_DROP;
    }
    if (theirs->version != COLL_BOOTSTRAP_VERSION ||
        !coll_hello_tag_fits(key, theirs, opening + sizeof *theirs)) {
        return COLL_BOOTSTRAP_REFUSE;
    }
    return theirs->rank > 0 && theirs->rank < COLL_RANKS_MAX && theirs->peer == 0 &&
                   theirs->auth == COLL_TCP_AUTH_ENCRYPT && theirs->has_aes <= 1
               ? COLL_BOOTSTRAP_ADMIT
               : COLL_BOOTSTRAP_DROP;
}

bool coll_bootstrap_head_is_sound(const coll_frame_head *head, uint64_t number, size_t bytes_max)
{
    return head->magic == COLL_BOOTSTRAP_MAGIC && head->number == number &&
           (head->kind == COLL_BOOTSTRAP_NOTE || head->kind == COLL_BOOTSTRAP_BYTES) &&
           head->body_bytes <= bytes_max;
}

size_t coll_bootstrap_note_bytes(const coll_bootstrap_note *note)
{
    return offsetof(coll_bootstrap_note, message) + strlen(note->message) + 1;
}

bool coll_bootstrap_note_read(const void *body, size_t size_bytes, coll_bootstrap_note *note)
{
    if (size_bytes <= offsetof(coll_bootstrap_note, message) || size_bytes > sizeof *note) {
        return false;
    }
    memset(note, 0, sizeof *note);
    memcpy(note, body, size_bytes);
    note->process.host[sizeof note->process.host - 1] = '\0';
    note->address[sizeof note->address - 1] = '\0';
    note->message[sizeof note->message - 1] = '\0';
    coll_text_clean(note->process.host);
    coll_text_clean(note->address);
    coll_text_clean(note->message);
    return note->status <= COLL_OK && note->status >= COLL_ERR_NOTFOUND;
}
