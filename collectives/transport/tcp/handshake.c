/* Makes and checks the hellos and proofs of a fresh connection, and derives its keys. Called by
 * links.c, and by bootstrap/. */
#include "transport/tcp/handshake.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void coll_hello_make(coll_hello *hello, int rank, int peer, int world_size, coll_tcp_auth auth)
{
    *hello = (coll_hello){
        .magic = COLL_HELLO_MAGIC,
        .version = COLL_HELLO_VERSION,
        .rank = (uint32_t)rank,
        .peer = (uint32_t)peer,
        .world_size = (uint32_t)world_size,
        .auth = (uint32_t)auth,
        .has_aes = crypto_aead_aes256gcm_is_available() != 0 ? 1 : 0,
    };
    randombytes_buf(hello->nonce, sizeof hello->nonce);
}

bool coll_hello_fits(const coll_hello *hello, int rank, int peer, int world_size,
                     coll_tcp_auth auth)
{
    const bool from = peer >= 0
                          ? hello->rank == (uint32_t)peer
                          : hello->rank > (uint32_t)rank && hello->rank < (uint32_t)world_size;
    return hello->magic == COLL_HELLO_MAGIC && hello->version == COLL_HELLO_VERSION && from &&
           hello->peer == (uint32_t)rank && hello->world_size == (uint32_t)world_size &&
           hello->auth == (uint32_t)auth && hello->has_aes <= 1;
}

/* BLAKE2b under the job's key over a label and both hellos; the listener's may be NULL. */
static void derive(const uint8_t job_key[COLL_JOB_KEY_BYTES], const char *label,
                   const coll_hello *connector_hello, const coll_hello *listener_hello,
                   uint8_t out[32])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, job_key, COLL_JOB_KEY_BYTES, 32);
    (void)crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    (void)crypto_generichash_update(&state, (const uint8_t *)connector_hello,
                                    sizeof *connector_hello);
    if (listener_hello != NULL) {
        (void)crypto_generichash_update(&state, (const uint8_t *)listener_hello,
                                        sizeof *listener_hello);
    }
    (void)crypto_generichash_final(&state, out, 32);
    sodium_memzero(&state, sizeof state);
}

void coll_hello_tag(const uint8_t job_key[COLL_JOB_KEY_BYTES], const coll_hello *connector_hello,
                    uint8_t tag[COLL_PROOF_BYTES])
{
    derive(job_key, "ringfence tcp 1: hello", connector_hello, NULL, tag);
}

bool coll_hello_tag_fits(const uint8_t job_key[COLL_JOB_KEY_BYTES],
                         const coll_hello *connector_hello, const uint8_t tag[COLL_PROOF_BYTES])
{
    uint8_t expected[COLL_PROOF_BYTES];
    coll_hello_tag(job_key, connector_hello, expected);
    return sodium_memcmp(expected, tag, sizeof expected) == 0;
}

void coll_proof_make(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                     const coll_hello *connector_hello, const coll_hello *listener_hello,
                     uint8_t proof[COLL_PROOF_BYTES])
{
    derive(job_key, listener ? "ringfence tcp 1: listener" : "ringfence tcp 1: connector",
           connector_hello, listener_hello, proof);
}

bool coll_proof_fits(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                     const coll_hello *connector_hello, const coll_hello *listener_hello,
                     const uint8_t proof[COLL_PROOF_BYTES])
{
    uint8_t expected[COLL_PROOF_BYTES];
    coll_proof_make(job_key, listener, connector_hello, listener_hello, expected);
    return sodium_memcmp(expected, proof, sizeof expected) == 0;
}

void coll_handshake_seals(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                          const coll_hello *connector_hello, const coll_hello *listener_hello,
                          coll_seal *in, coll_seal *out)
{
    uint8_t key[COLL_SEAL_KEY_BYTES];
    const bool aes = connector_hello->has_aes != 0 && listener_hello->has_aes != 0;
    const coll_tcp_auth auth = (coll_tcp_auth)connector_hello->auth;
    derive(job_key, "ringfence tcp 1: connector's frames", connector_hello, listener_hello, key);
    coll_seal_init(listener ? in : out, auth, aes, key);
    derive(job_key, "ringfence tcp 1: listener's frames", connector_hello, listener_hello, key);
    coll_seal_init(listener ? out : in, auth, aes, key);
    sodium_memzero(key, sizeof key);
}

bool coll_handshake_send(int fd, const void *data, size_t size_bytes)
{
    return send(fd, data, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size_bytes;
}

int coll_handshake_receive(int fd, uint8_t *received, size_t *received_bytes, size_t wanted)
{
    const ssize_t got =
        recv(fd, received + *received_bytes, wanted - *received_bytes, MSG_DONTWAIT);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    *received_bytes += (size_t)got;
    return got == 0 ? -1 : *received_bytes == wanted;
}
