#include "tcp_seal.h"

#include <string.h>

enum { NONCE_BYTES = crypto_stream_chacha20_ietf_NONCEBYTES };

_Static_assert((int)crypto_onetimeauth_BYTES == (int)COLL_SEAL_TAG_BYTES, "a tag is Poly1305's");
_Static_assert((int)crypto_aead_aes256gcm_ABYTES == (int)COLL_SEAL_TAG_BYTES, "and GCM's");
_Static_assert((int)crypto_aead_chacha20poly1305_ietf_ABYTES == (int)COLL_SEAL_TAG_BYTES,
               "and ChaCha20-Poly1305's");
_Static_assert((int)crypto_aead_aes256gcm_NPUBBYTES == (int)NONCE_BYTES, "one form of nonce");

static void fill_nonce(uint8_t nonce[NONCE_BYTES], uint32_t label, uint64_t number)
{
    memcpy(nonce, &label, sizeof label);
    memcpy(nonce + sizeof label, &number, sizeof number);
}

void coll_seal_init(coll_seal *seal, coll_tcp_auth auth, bool use_aes,
                    const uint8_t key[COLL_SEAL_KEY_BYTES])
{
    uint8_t nonce[NONCE_BYTES];
    memset(seal, 0, sizeof *seal);
    seal->auth = auth;
    seal->use_aes = use_aes;
    memcpy(seal->key, key, sizeof seal->key);
    fill_nonce(nonce, 1, 0); /* the one-time keys' label is 0 */
    (void)crypto_stream_chacha20_ietf((uint8_t *)seal->nh_key, sizeof seal->nh_key, nonce,
                                      seal->key);
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
    return seal->auth == COLL_TCP_AUTH_OFF ? 0 : COLL_SEAL_TAG_BYTES;
}

static const uint8_t *one_time_key(coll_seal *seal, uint64_t number)
{
    const uint64_t first = number - number % COLL_SEAL_AHEAD;
    if (!seal->filled || seal->first != first) {
        uint8_t nonce[NONCE_BYTES];
        fill_nonce(nonce, 0, first);
        (void)crypto_stream_chacha20_ietf(seal->once[0], sizeof seal->once, nonce, seal->key);
        seal->first = first;
        seal->filled = true;
    }
    return seal->once[number % COLL_SEAL_AHEAD];
}

static void make_tag(coll_seal *seal, const coll_frame_head *head, const uint8_t *body,
                     uint8_t tag[COLL_SEAL_TAG_BYTES])
{
    enum {
        DIGESTS_BYTES_MAX = (COLL_FRAME_BODY_BYTES_MAX + COLL_NH_UNIT_BYTES - 1) /
                            COLL_NH_UNIT_BYTES * COLL_NH_DIGEST_BYTES,
        REST_BYTES_MAX = DIGESTS_BYTES_MAX > (int)COLL_SEAL_SHORT_BYTES
                             ? (int)DIGESTS_BYTES_MAX
                             : (int)COLL_SEAL_SHORT_BYTES,
    };
    uint8_t text[sizeof *head + REST_BYTES_MAX];
    size_t used = sizeof *head;
    memcpy(text, head, sizeof *head);
    if (head->body_bytes > COLL_SEAL_SHORT_BYTES) {
        coll_nh(seal->nh_key, body, head->body_bytes, text + used);
        used += coll_nh_digest_bytes(head->body_bytes);
    } else if (head->body_bytes > 0) {
        memcpy(text + used, body, head->body_bytes);
        used += head->body_bytes;
    }
    (void)crypto_onetimeauth(tag, text, used, one_time_key(seal, head->number));
}

const uint8_t *coll_seal_close(coll_seal *seal, const coll_frame_head *head, const uint8_t *body,
                               uint8_t *sealed_body, uint8_t tag[COLL_SEAL_TAG_BYTES])
{
    if (seal->auth == COLL_TCP_AUTH_OFF) {
        return body;
    }
    if (seal->auth == COLL_TCP_AUTH_MAC) {
        make_tag(seal, head, body, tag);
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
        uint8_t expected[COLL_SEAL_TAG_BYTES];
        make_tag(seal, head, body, expected);
        return sodium_memcmp(expected, tag, sizeof expected) == 0;
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
