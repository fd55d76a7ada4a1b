/* Makes and checks what the ranks of a bootstrap say to each other. Called by admit.c, join.c and
 * link.c. */
#include "bootstrap/frames.h"

#include <sodium.h>
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

static bool fits_without_secret(const coll_hello *theirs, const uint8_t tag[COLL_PROOF_BYTES])
{
    uint8_t key[COLL_JOB_KEY_BYTES];
    coll_bootstrap_derive(NULL, 0, COLL_BOOTSTRAP_LINK_LABEL, key);
    return coll_hello_tag_fits(key, theirs, tag);
}

coll_bootstrap_verdict coll_bootstrap_judge(const uint8_t key[COLL_JOB_KEY_BYTES], bool has_secret,
                                            const uint8_t opening[COLL_OPENING_BYTES],
                                            coll_hello *theirs, coll_bootstrap_reason *reason)
{
    const uint8_t *tag = opening + sizeof *theirs;
    memcpy(theirs, opening, sizeof *theirs);
    if (theirs->magic != COLL_BOOTSTRAP_MAGIC) {
        return COLL_BOOTSTRAP_DROP;
    }
    if (theirs->version != COLL_BOOTSTRAP_VERSION) {
        *reason = COLL_BOOTSTRAP_OTHER_VERSION;
        return COLL_BOOTSTRAP_REFUSE;
    }
    if (!coll_hello_tag_fits(key, theirs, tag)) {
        *reason = !has_secret                        ? COLL_BOOTSTRAP_SECRET_UNKNOWN
                  : fits_without_secret(theirs, tag) ? COLL_BOOTSTRAP_NO_SECRET
                                                     : COLL_BOOTSTRAP_OTHER_SECRET;
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
           head->kind >= COLL_BOOTSTRAP_JOIN && head->kind <= COLL_BOOTSTRAP_FAILED &&
           head->body_bytes <= bytes_max;
}

bool coll_bootstrap_process_read(const void *body, size_t size_bytes,
                                 coll_bootstrap_process *process)
{
    if (size_bytes != sizeof *process) {
        return false;
    }
    memcpy(process, body, sizeof *process);
    process->host[sizeof process->host - 1] = '\0';
    coll_text_clean(process->host);
    return true;
}

bool coll_bootstrap_roster_read(const void *body, size_t size_bytes, coll_bootstrap_roster *roster)
{
    if (size_bytes != sizeof *roster) {
        return false;
    }
    memcpy(roster, body, sizeof *roster);
    roster->process.host[sizeof roster->process.host - 1] = '\0';
    roster->address[sizeof roster->address - 1] = '\0';
    coll_text_clean(roster->process.host);
    coll_text_clean(roster->address);
    return true;
}

bool coll_bootstrap_failure_read(const void *body, size_t size_bytes,
                                 coll_bootstrap_failure *failure)
{
    if (size_bytes != sizeof *failure) {
        return false;
    }
    memcpy(failure, body, sizeof *failure);
    failure->process.host[sizeof failure->process.host - 1] = '\0';
    failure->message[sizeof failure->message - 1] = '\0';
    coll_text_clean(failure->process.host);
    coll_text_clean(failure->message);
    return failure->status < COLL_OK && failure->status >= COLL_ERR_NOTFOUND;
}
