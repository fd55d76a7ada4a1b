/* Makes and checks the tags of frames in one direction, and wipes their keys. Called by conn.c for
 * each frame, and set up by handshake.c. */
#include "transport/tcp/seal.h"

#include <string.h>

enum { NONCE_BYTES = crypto_stream_chacha20_ietf_NONCEBYTES, AEAD_TAG_BYTES = 16 };

enum {
    DIGESTS_BYTES_MAX = (COLL_FRAME_BODY_BYTES_MAX + COLL_NH_UNIT_BYTES - 1) / COLL_NH_UNIT_BYTES *
                        COLL_NH_DIGEST_BYTES,
    REST_BYTES_MAX = DIGESTS_BYTES_MAX > (int)COLL_SEAL_SHORT_BYTES ? (int)DIGESTS_BYTES_MAX
                                                                    : (int)COLL_SEAL_SHORT_BYTES,
};

/* Labels of what is drawn from a direction's key. */
enum { LABEL_ONCE = 0, LABEL_BODY_KEY = 1, LABEL_FRAME_KEY = 2 };

_Static_assert((int)COLL_NH_DIGEST_BYTES == (int)COLL_SEAL_TAG_BYTES, "a tag is NH's sums, hidden");
_Static_assert(COLL_FRAME_HEAD_BYTES + REST_BYTES_MAX <= COLL_NH_UNIT_BYTES, "of one unit");
_Static_assert((int)crypto_aead_aes256gcm_ABYTES == (int)AEAD_TAG_BYTES, "or GCM's");
_Static_assert((int)crypto_aead_chacha20poly1305_ietf_ABYTES == (int)AEAD_TAG_BYTES,
               "or ChaCha20-Poly1305's");
_Static_assert((int)crypto_aead_aes256gcm_NPUBBYTES == (int)NONCE_BYTES, "one form of nonce");

static void fill_nonce(uint8_t nonce[NONCE_BYTES], uint32_t label, uint64_t number)
{
    memcpy(nonce, &label, sizeof label);
    memcpy(nonce + sizeof label, &number, sizeof number);
}

/* Pseudorandom bytes of a direction's: different ones for every label and number. */
static void draw(const coll_seal *seal, uint32_t label, uint64_t number, void *bytes,
                 size_t size_bytes)
{
    uint8_t nonce[NONCE_BYTES];
    fill_nonce(nonce, label, number);
    (void)crypto_stream_chacha20_ietf(bytes, size_bytes, nonce, seal->key);
}

void coll_seal_init(coll_seal *seal, coll_tcp_auth auth, bool use_aes,
                    const uint8_t key[COLL_SEAL_KEY_BYTES])
{
    memset(seal, 0, sizeof *seal);
    seal->auth = auth;
    seal->use_aes = use_aes;
    memcpy(seal->key, key, sizeof seal->key);
    draw(seal, LABEL_BODY_KEY, 0, seal->body_key, sizeof seal->body_key);
    draw(seal, LABEL_FRAME_KEY, 0, seal->frame_key, sizeof seal->frame_key);
    if (auth == COLL_TCP_AUTH_ENCRYPT && use_aes) {
        (void)crypto_aead_aes256gcm_beforenm(&seal->aes, seal->key);
    }
}

void coll_seal_wipe(coll_seal *seal)
{
    sodium_memzero(seal, sizeof *seal);
}

size_t coll_seal_tag_bytes(const coll_seal *seal)
{
    return seal->auth == COLL_TCP_AUTH_OFF   ? 0
           : seal->auth == COLL_TCP_AUTH_MAC ? (size_t)COLL_SEAL_TAG_BYTES
                                             : (size_t)AEAD_TAG_BYTES;
}

static const uint64_t *numbers_of(coll_seal *seal, uint64_t number)
{
    const uint64_t first = number - number % COLL_SEAL_AHEAD;
    if (!seal->filled || seal->first != first) {
        draw(seal, LABEL_ONCE, first, seal->once, sizeof seal->once);
        seal->first = first;
        seal->filled = true;
    }
    return seal->once[number % COLL_SEAL_AHEAD];
}

static void make_tag(coll_seal *seal, const coll_frame_head *head, const uint8_t *body,
                     uint64_t tag[COLL_NH_PASSES])
{
    uint8_t text[sizeof *head + REST_BYTES_MAX];
    size_t used = sizeof *head;
    const uint64_t *once = numbers_of(seal, head->number);
    memcpy(text, head, sizeof *head);
    if (head->body_bytes > COLL_SEAL_SHORT_BYTES) {
        coll_nh(seal->body_key, body, head->body_bytes, text + used);
        used += coll_nh_digest_bytes(head->body_bytes);
    } else if (head->body_bytes > 0) {
        memcpy(text + used, body, head->body_bytes);
        used += head->body_bytes;
    }
    coll_nh(seal->frame_key, text, used, (uint8_t *)tag);
    for (int pass = 0; pass < COLL_NH_PASSES; pass++) {
        tag[pass] += once[pass];
    }
}

/* In a time that does not depend on where they differ. */
static bool is_same(const uint64_t expected[COLL_NH_PASSES], const uint8_t tag[COLL_SEAL_TAG_BYTES])
{
    uint64_t there[COLL_NH_PASSES];
    uint64_t difference = 0;
    memcpy(there, tag, sizeof there);
    for (int pass = 0; pass < COLL_NH_PASSES; pass++) {
        difference |= expected[pass] ^ there[pass];
    }
    return difference == 0;
}

const uint8_t *coll_seal_close(coll_seal *seal, const coll_frame_head *head, const uint8_t *body,
                               uint8_t *sealed_body, uint8_t tag[COLL_SEAL_TAG_BYTES])
{
    if (seal->auth == COLL_TCP_AUTH_OFF) {
        return body;
    }
    if (seal->auth == COLL_TCP_AUTH_MAC) {
        uint64_t made[COLL_NH_PASSES];
        make_tag(seal, head, body, made);
        memcpy(tag, made, sizeof made);
        return body;
    }
    uint8_t nonce[NONCE_BYTES];
    fill_nonce(nonce, 0, head->number);
    const uint8_t *clear = (const uint8_t *)head;
    if (seal->use_aes) {
        (void)crypto_aead_aes256gcm_encrypt_detached_afternm(sealed_body, tag, NULL, body,
                                                             head->body_bytes, clear, sizeof *head,
                                                             NULL, nonce, &seal->aes);
    } else {
        (void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(
            sealed_body, tag, NULL, body, head->body_bytes, clear, sizeof *head, NULL, nonce,
            seal->key);
    }
    return sealed_body;
}

bool coll_seal_open(coll_seal *seal, const coll_frame_head *head, uint8_t *body,
                    const uint8_t tag[COLL_SEAL_TAG_BYTES])
{
    if (seal->auth == COLL_TCP_AUTH_OFF) {
        return true;
    }
    if (seal->auth == COLL_TCP_AUTH_MAC) {
        uint64_t expected[COLL_NH_PASSES];
        make_tag(seal, head, body, expected);
        return is_same(expected, tag);
    }
    uint8_t nonce[NONCE_BYTES];
    fill_nonce(nonce, 0, head->number);
    const uint8_t *clear = (const uint8_t *)head;
    if (seal->use_aes) {
        return crypto_aead_aes256gcm_decrypt_detached_afternm(body, NULL, body, head->body_bytes,
                                                              tag, clear, sizeof *head, nonce,
                                                              &seal->aes) == 0;
    }
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
               body, NULL, body, head->body_bytes, tag, clear, sizeof *head, nonce, seal->key) == 0;
}
