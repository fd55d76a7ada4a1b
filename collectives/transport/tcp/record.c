/* Checks the records that ranks exchange before they connect, and derives the job's key from their
 * shares. Called by links.c. */
#include "transport/tcp/record.h"

#include <sodium.h>

#include "core/text.h"

coll_status coll_tcp_records_check(const coll_context *context, coll_tcp_record *all,
                                   coll_error *reterr)
{
    char one[128];
    char other[128];
    for (int rank = 0; rank < context->size; rank++) {
        coll_tcp_record *record = &all[rank];
        coll_context_rank_text(context, rank, one, sizeof one);
        record->address[sizeof record->address - 1] = '\0';
        if (record->auth > COLL_TCP_AUTH_OFF || record->has_key > 1) {
            return coll_fail(reterr, COLL_ERR_PEER, "%s sent a broken record", one);
        }
        if (record->auth != all[0].auth || record->has_key != all[0].has_key) {
            coll_context_rank_text(context, 0, other, sizeof other);
            return coll_fail(reterr, COLL_ERR_MISMATCH,
                             "%s wants frames authenticated by '%s'%s, %s by '%s'%s", other,
                             coll_tcp_auth_name((coll_tcp_auth)all[0].auth),
                             all[0].has_key != 0 ? " and has the job's key" : "", one,
                             coll_tcp_auth_name((coll_tcp_auth)record->auth),
                             record->has_key != 0 ? " and has the job's key" : "");
        }
    }
    return COLL_OK;
}

void coll_tcp_records_key(const uint8_t *job_key, const coll_tcp_record *all, int size,
                          uint8_t key[COLL_JOB_KEY_BYTES])
{
    static const char label[] = "ringfence tcp 1: job";
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, job_key, job_key != NULL ? COLL_JOB_KEY_BYTES : 0,
                                  COLL_JOB_KEY_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)label, sizeof label);
    for (int rank = 0; rank < size; rank++) {
        (void)crypto_generichash_update(&state, all[rank].share, sizeof all[rank].share);
    }
    (void)crypto_generichash_final(&state, key, COLL_JOB_KEY_BYTES);
    sodium_memzero(&state, sizeof state);
}
