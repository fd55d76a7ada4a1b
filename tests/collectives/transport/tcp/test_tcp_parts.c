/* The parts of tcp that need no network: NH, seals, the handshake, and the choice of an address. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "random.h"
#include "support.h"
#include "transport/socket/interface.h"
#include "transport/socket/options.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/nh.h"

enum { BODY_BYTES = 9000 };

static uint8_t body[BODY_BYTES];

/* The definition, word by word. */
static void nh_by_hand(const uint32_t *key, const uint8_t *data, size_t size_bytes, uint8_t *digest)
{
    for (size_t at = 0; at < size_bytes; at += COLL_NH_UNIT_BYTES) {
        for (size_t pass = 0; pass < COLL_NH_PASSES; pass++) {
            uint64_t sum = 0;
            const size_t left = size_bytes - at;
            const size_t unit =
                left < COLL_NH_UNIT_BYTES ? (left + 63) / 64 * 64 : (size_t)COLL_NH_UNIT_BYTES;
            for (size_t i = 0; i < unit / 4; i += 2) {
                uint32_t words[2] = {0, 0};
                for (size_t b = 0; b < 8; b++) {
                    const size_t place = at + 4 * i + b;
                    const uint8_t byte = place < size_bytes ? data[place] : 0;
                    words[b / 4] |= (uint32_t)byte << (8 * (b % 4));
                }
                const uint32_t x = words[0] + key[i + COLL_NH_SHIFT_WORDS * pass];
                const uint32_t y = words[1] + key[i + 1 + COLL_NH_SHIFT_WORDS * pass];
                sum += (uint64_t)x * y;
            }
            for (size_t b = 0; b < 8; b++) {
                *digest++ = (uint8_t)(sum >> (8 * b));
            }
        }
    }
}

static void nh_is_what_the_paper_says(void **state)
{
    (void)state;
    static uint32_t key[COLL_NH_KEY_WORDS];
    test_random_bytes(key, sizeof key, 1);
    test_random_bytes(body, sizeof body, 2);
    for (size_t size = 1; size < BODY_BYTES - 3; size += size < 200 ? 1 : 61) {
        uint8_t fast[3 * COLL_NH_DIGEST_BYTES];
        uint8_t plain[sizeof fast];
        uint8_t hand[sizeof fast];
        const size_t digest_bytes = coll_nh_digest_bytes(size);
        assert_in_range(digest_bytes, COLL_NH_DIGEST_BYTES, sizeof fast);
        for (size_t shift = 0; shift < 4; shift += 3) { /* any alignment */
            coll_nh(key, body + shift, size, fast);
            coll_nh_plain(key, body + shift, size, plain);
            nh_by_hand(key, body + shift, size, hand);
            assert_memory_equal(fast, hand, digest_bytes);
            assert_memory_equal(plain, hand, digest_bytes);
        }
    }
}

typedef struct pair {
    coll_seal out;
    coll_seal in;
    coll_seal other; /* the other direction's */
} pair;

static void make_pair(pair *p, coll_tcp_auth auth, bool aes)
{
    static const uint8_t job_key[COLL_JOB_KEY_BYTES] = {1, 2, 3};
    coll_hello connector;
    coll_hello listener;
    coll_hello_make(&connector, 1, 0, 2, auth);
    coll_hello_make(&listener, 0, 1, 2, auth);
    connector.has_aes = aes;
    coll_seal unused;
    coll_handshake_seals(job_key, false, &connector, &listener, &p->other, &p->out);
    coll_handshake_seals(job_key, true, &connector, &listener, &p->in, &unused);
}

/* Every bit of a frame counts: one flipped, anywhere, and it is refused. */
static void check_bits(coll_tcp_auth auth, bool aes, size_t size)
{
    static pair p;
    static uint8_t sealed[BODY_BYTES];
    static uint8_t copy[BODY_BYTES];
    uint8_t tag[COLL_SEAL_TAG_BYTES];
    coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                            .kind = COLL_FRAME_DATA,
                            .number = 37,
                            .body_bytes = (uint32_t)size};
    make_pair(&p, auth, aes);
    const uint8_t *wire = coll_seal_close(&p.out, &head, body, sealed, tag);
    if (auth == COLL_TCP_AUTH_ENCRYPT && size > 16) {
        assert_memory_not_equal(wire, body, size);
    }
    memcpy(copy, wire, size);
    assert_true(coll_seal_open(&p.in, &head, copy, tag));
    assert_memory_equal(copy, body, size);
    for (size_t bit = 0; bit<8 * size; bit += size> 100 ? 37 : 1) {
        memcpy(copy, wire, size);
        copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_false(coll_seal_open(&p.in, &head, copy, tag));
    }
    for (size_t bit = 0; bit < 8 * sizeof head; bit++) {
        coll_frame_head wrong = head;
        ((uint8_t *)&wrong)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        if (wrong.body_bytes == head.body_bytes) {
            memcpy(copy, wire, size);
            assert_false(coll_seal_open(&p.in, &wrong, copy, tag));
        }
    }
    for (size_t bit = 0; bit < 8 * coll_seal_tag_bytes(&p.out); bit++) {
        tag[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        memcpy(copy, wire, size);
        assert_false(coll_seal_open(&p.in, &head, copy, tag));
        tag[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    /* Sent back to where it came from. */
    memcpy(copy, wire, size);
    assert_false(coll_seal_open(&p.other, &head, copy, tag));
}

static void every_bit_of_a_frame_counts(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 72, 255, 256, 257, 1024, 4096, 8192, 8193};
    test_random_bytes(body, sizeof body, 3);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_bits(COLL_TCP_AUTH_MAC, false, sizes[i]);
        check_bits(COLL_TCP_AUTH_ENCRYPT, false, sizes[i]);
        if (crypto_aead_aes256gcm_is_available() != 0) {
            check_bits(COLL_TCP_AUTH_ENCRYPT, true, sizes[i]);
        }
    }
}

/* The same bytes twice are two frames: their tags differ, and each fits its own number only. */
static void a_number_is_used_once(void **state)
{
    (void)state;
    static pair p;
    enum { FRAMES = 40 };
    uint8_t tags[FRAMES][COLL_SEAL_TAG_BYTES];
    make_pair(&p, COLL_TCP_AUTH_MAC, false);
    for (int i = 0; i < FRAMES; i++) {
        const coll_frame_head head = {.number = (uint64_t)i, .body_bytes = 100};
        (void)coll_seal_close(&p.out, &head, body, NULL, tags[i]);
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(tags[i], tags[j], sizeof tags[i]);
            assert_false(coll_seal_open(&p.in, &head, body, tags[j]));
        }
        assert_true(coll_seal_open(&p.in, &head, body, tags[i]));
    }
}

static void proofs_are_for_one_connection(void **state)
{
    (void)state;
    static const uint8_t key[COLL_JOB_KEY_BYTES] = {7};
    static const uint8_t other_key[COLL_JOB_KEY_BYTES] = {8};
    coll_hello connector;
    coll_hello listener;
    coll_hello again;
    uint8_t proof[COLL_PROOF_BYTES];
    coll_hello_make(&connector, 3, 1, 4, COLL_TCP_AUTH_MAC);
    coll_hello_make(&listener, 1, 3, 4, COLL_TCP_AUTH_MAC);
    coll_hello_make(&again, 1, 3, 4, COLL_TCP_AUTH_MAC);
    assert_memory_not_equal(listener.nonce, again.nonce, sizeof again.nonce);
    coll_proof_make(key, true, &connector, &listener, proof);
    assert_true(coll_proof_fits(key, true, &connector, &listener, proof));
    assert_false(coll_proof_fits(key, false, &connector, &listener, proof)); /* not reflected */
    assert_false(coll_proof_fits(key, true, &connector, &again, proof));     /* nor replayed */
    assert_false(coll_proof_fits(key, true, &listener, &connector, proof));
    assert_false(coll_proof_fits(other_key, true, &connector, &listener, proof));
}

static void only_who_knows_the_key_makes_a_tag(void **state)
{
    (void)state;
    static const uint8_t key[COLL_JOB_KEY_BYTES] = {7};
    static const uint8_t other_key[COLL_JOB_KEY_BYTES] = {8};
    coll_hello hello;
    uint8_t tag[COLL_PROOF_BYTES];
    coll_hello_make(&hello, 3, 1, 4, COLL_TCP_AUTH_MAC);
    coll_hello_tag(key, &hello, tag);
    assert_true(coll_hello_tag_fits(key, &hello, tag));
    assert_false(coll_hello_tag_fits(other_key, &hello, tag));
    hello.rank = 2;
    assert_false(coll_hello_tag_fits(key, &hello, tag));
}

static void hellos_are_checked(void **state)
{
    (void)state;
    coll_hello hello;
    coll_hello_make(&hello, 3, 1, 4, COLL_TCP_AUTH_MAC);
    assert_true(coll_hello_fits(&hello, 1, -1, 4, COLL_TCP_AUTH_MAC));
    assert_true(coll_hello_fits(&hello, 1, 3, 4, COLL_TCP_AUTH_MAC));
    assert_false(coll_hello_fits(&hello, 1, 2, 4, COLL_TCP_AUTH_MAC));
    assert_false(coll_hello_fits(&hello, 0, -1, 4, COLL_TCP_AUTH_MAC));
    assert_false(coll_hello_fits(&hello, 1, -1, 5, COLL_TCP_AUTH_MAC));
    assert_false(coll_hello_fits(&hello, 1, -1, 4, COLL_TCP_AUTH_OFF));
    for (size_t bit = 0; bit < 8 * offsetof(coll_hello, nonce); bit++) {
        coll_hello wrong = hello;
        ((uint8_t *)&wrong)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_true(!coll_hello_fits(&wrong, 1, 3, 4, COLL_TCP_AUTH_MAC) ||
                    wrong.has_aes != hello.has_aes || wrong.attempt != hello.attempt);
    }
}

static const coll_interface interfaces[] = {
    {"lo", "127.0.0.1"},     {"lo", "::1"},          {"docker0", "172.17.0.1"},
    {"eth0", "fe80::1"},     {"eth0", "fd00::2"},    {"eth0", "10.1.2.3"},
    {"eth1", "192.168.7.9"}, {"six", "2001:db8::7"}, {"link", "fe80::abc"},
};
enum { INTERFACES = sizeof interfaces / sizeof interfaces[0] };

static void addresses_are_picked(void **state)
{
    (void)state;
    static const struct {
        const char *choice;
        bool beyond;
        const char *address; /* NULL: refused, */
        const char *message; /* in this */
    } cases[] = {
        {"eth0", true, "10.1.2.3", NULL},
        {"eth1", true, "192.168.7.9", NULL},
        {"six", true, "2001:db8::7", NULL},
        {"10.1.2.3", true, "10.1.2.3", NULL},
        {"fd00::2", true, "fd00::2", NULL},
        {"10.0.0.0/8", true, "10.1.2.3", NULL},
        {"192.168.0.0/16", true, "192.168.7.9", NULL},
        {"2001:db8::/32", true, "2001:db8::7", NULL},
        {"0.0.0.0/0", true, "172.17.0.1", NULL},
        {"^docker0,lo", true, "10.1.2.3", NULL},
        {"^docker0,eth0", true, "192.168.7.9", NULL},
        {"^lo", true, "172.17.0.1", NULL},
        {"lo", false, "127.0.0.1", NULL},
        {"127.0.0.1", false, "127.0.0.1", NULL},
        {"127.0.0.9", false, "127.0.0.9", NULL},
        {"lo", true, NULL, "cannot reach 127.0.0.1"},
        {"127.0.0.1", true, NULL, "--interface of a launcher; here are: lo 127.0.0.1"},
        {"127.0.0.0/8", true, NULL, "cannot reach"},
        {"::1", true, NULL, "cannot reach"},
        {"0.0.0.0", false, NULL, "nobody can connect to that"},
        {"0.0.0.0", true, NULL, "nobody can connect to that"},
        {"::", true, NULL, "nobody can connect to that"},
        {"eth9", true, NULL, "no interface of this host fits 'eth9' (here are: lo 127.0.0.1"},
        {"10.9.9.9", true, NULL, "no interface of this host fits"},
        {"10.0.0.0/33", true, NULL, "is no network"},
        {"10.0.0.0/", true, NULL, "is no network"},
        {"10.0.0/8", true, NULL, "is no network"},
        {"/8", true, NULL, "is no network"},
        {"link", true, NULL, "no interface of this host fits"},
        {"^lo,docker0,eth0,eth1,six", true, NULL, "no interface of this host fits"},
        {"^docker0,eth0,eth1,six", false, NULL, "no interface of this host fits"}, /* not lo */
        {"^docker", true, "172.17.0.1", NULL},                                     /* whole names */
        {"^docker01", true, "172.17.0.1", NULL},
        {"^,docker0,", true, "10.1.2.3", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char address[COLL_ADDRESS_BYTES] = "";
        coll_error error = {.message = ""};
        const coll_status status = coll_interface_pick(interfaces, INTERFACES, cases[i].choice,
                                                       cases[i].beyond, address, &error);
        if (cases[i].address != NULL) {
            assert_ok(status, &error);
            assert_string_equal(address, cases[i].address);
        } else if (status != COLL_ERR_INVALID || strstr(error.message, cases[i].message) == NULL) {
            fail_msg("%s: %d, %s", cases[i].choice, status, error.message);
        }
    }
}

static void the_route_is_asked(void **state)
{
    (void)state;
    char address[COLL_ADDRESS_BYTES] = "";
    coll_error error = {.message = ""};
    assert_ok(coll_interface_choose(NULL, NULL, false, address, &error), &error);
    assert_string_equal(address, "127.0.0.1");
    assert_ok(coll_interface_choose("", "127.0.0.1", false, address, &error), &error);
    assert_string_equal(address, "127.0.0.1");
    assert_status(coll_interface_choose(NULL, "127.0.0.1", true, address, &error),
                  COLL_ERR_INVALID);
    assert_non_null(strstr(error.message, "--interface"));
    assert_status(coll_interface_choose(NULL, NULL, true, address, &error), COLL_ERR_INVALID);
    assert_status(coll_interface_choose(NULL, "0.0.0.0", false, address, &error), COLL_ERR_INVALID);
    assert_status(coll_interface_choose(NULL, "nonsense", false, address, &error),
                  COLL_ERR_INVALID);
}

static void heads_are_checked(void **state)
{
    (void)state;
    const coll_frame_head good = {
        .magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_DATA, .body_bytes = 100};
    assert_true(coll_frame_head_is_sound(&good));
    coll_frame_head head = good;
    head.magic++;
    assert_false(coll_frame_head_is_sound(&head));
    head = good;
    head.kind = 0;
    assert_false(coll_frame_head_is_sound(&head));
    head.kind = COLL_FRAME_WAITS + 1;
    assert_false(coll_frame_head_is_sound(&head));
    head = good;
    head.channel = COLL_CHANNELS;
    assert_false(coll_frame_head_is_sound(&head));
    head = good;
    head.body_bytes = COLL_FRAME_BODY_BYTES_MAX + 1;
    assert_false(coll_frame_head_is_sound(&head));
    head = good;
    head.zero[sizeof head.zero - 1] = 1;
    assert_false(coll_frame_head_is_sound(&head));
}

/* A socket is not left with a congestion control that paces, and keeps any other. */
static void sockets_do_not_pace(void **state)
{
    (void)state;
    assert_true(coll_tcp_paces("bbr"));
    assert_true(coll_tcp_paces("bbr3"));
    assert_false(coll_tcp_paces("cubic"));
    assert_false(coll_tcp_paces("dctcp"));
    assert_false(coll_tcp_paces(""));
    const char *const names[] = {"bbr", "cubic", "reno"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char after[17] = "";
        socklen_t length = sizeof after - 1;
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i], (socklen_t)strlen(names[i])) ==
            0) {
            coll_tcp_options_fresh(fd, BASE_NS_PER_S);
            assert_true(coll_tcp_options_met(fd)); /* no round trip was seen: a short path */
            assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, after, &length), 0);
            assert_string_equal(after, i == 0 ? "reno" : names[i]);
        }
        (void)close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nh_is_what_the_paper_says),
        cmocka_unit_test(every_bit_of_a_frame_counts),
        cmocka_unit_test(a_number_is_used_once),
        cmocka_unit_test(proofs_are_for_one_connection),
        cmocka_unit_test(only_who_knows_the_key_makes_a_tag),
        cmocka_unit_test(hellos_are_checked),
        cmocka_unit_test(addresses_are_picked),
        cmocka_unit_test(the_route_is_asked),
        cmocka_unit_test(heads_are_checked),
        cmocka_unit_test(sockets_do_not_pace),
    };
    if (sodium_init() < 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
