/* What a stranger may send to a rank that waits for its peers: no bytes are a proof or a tag, and
 * hellos that pass are what they must be. */
#include <string.h>

#include "base/assert.h"
#include "transport/tcp/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t job_key[COLL_JOB_KEY_BYTES] = {5};
    coll_hello theirs = {.magic = 0};
    coll_hello own;
    uint8_t proof[COLL_PROOF_BYTES] = {0};
    BASE_ASSERT(sodium_init() >= 0);
    memcpy(&theirs, data, size_bytes < sizeof theirs ? size_bytes : sizeof theirs);
    if (size_bytes > sizeof theirs) {
        const size_t rest = size_bytes - sizeof theirs;
        memcpy(proof, data + sizeof theirs, rest < sizeof proof ? rest : sizeof proof);
    }
    for (int auth = COLL_TCP_AUTH_MAC; auth <= COLL_TCP_AUTH_OFF; auth++) {
        if (coll_hello_fits(&theirs, 1, -1, 4, (coll_tcp_auth)auth)) {
            BASE_ASSERT(theirs.rank > 1 && theirs.rank < 4);
            BASE_ASSERT(theirs.auth == (uint32_t)auth && theirs.has_aes <= 1);
            BASE_ASSERT(coll_hello_fits(&theirs, 1, (int)theirs.rank, 4, (coll_tcp_auth)auth));
        }
    }
    coll_hello_make(&own, 1, 2, 4, COLL_TCP_AUTH_MAC);
    BASE_ASSERT(!coll_hello_tag_fits(job_key, &theirs, proof));
    BASE_ASSERT(!coll_proof_fits(job_key, false, &theirs, &own, proof));
    BASE_ASSERT(!coll_proof_fits(job_key, true, &own, &theirs, proof));
    return 0;
}
