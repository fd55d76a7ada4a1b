/* The tcp transport under somebody who sits between two ranks: what is altered, replayed, reordered
 * or cut off ends the job with a message that says so and names the rank; what is only late does
 * not. What protects the zmq transport's frames is asked for in the same way. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "ranks.h"
#include "relay.h"
#include "support.h"
#include "transport/tcp/handshake.h"

enum { RELAYS_MAX = 8, COUNT = 100000 };

/* What the one in the middle does to a frame from the rank that connects. */
typedef enum deed {
    DEED_NOTHING,
    DEED_ALTER_BODY,
    DEED_ALTER_HEAD, /* the taken counts */
    DEED_ALTER_TAG,
    DEED_REPLAY,  /* the frame once more */
    DEED_REORDER, /* after its successor */
    DEED_DROP,
    DEED_CUT, /* from there on nothing goes either way */
    DEED_CLOSE,
} deed;

typedef struct meddler {
    deed what;
    int frame;                /* which is meddled with */
    coll_transport transport; /* AUTO: tcp; over zmq nothing is done but delayed */
    coll_tcp_auth auth;
    int64_t delay_ns;
    int64_t timeout_ns;
    /* Of one connection (there is only one here): */
    uint8_t *kept[2];
    size_t kept_bytes[2];
    size_t handshake_left[2];
    int frames[2];
    uint8_t held[COLL_FRAME_BYTES_MAX + COLL_SEAL_TAG_BYTES];
    size_t held_bytes;
    test_relay *relay;
} meddler;

static _Thread_local meddler *redirected;

int __real_connect(int fd, const struct sockaddr *address, socklen_t address_bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t address_bytes);
int __real_zmq_connect(void *socket, const char *endpoint);
int __wrap_zmq_connect(void *socket, const char *endpoint);

static size_t tag_bytes_of(const meddler *m)
{
    static _Thread_local coll_seal seal;
    seal.auth = m->auth;
    return coll_seal_tag_bytes(&seal);
}

static void meddle(meddler *m, test_relay *relay, int side, uint8_t *frame, size_t size_bytes)
{
    const int number = m->frames[side]++;
    const bool chosen = side == 0 && number == m->frame;
    switch (chosen ? m->what : DEED_NOTHING) {
    case DEED_ALTER_BODY:
        frame[size_bytes - tag_bytes_of(m) - 1] ^= 1;
        break;
    case DEED_ALTER_HEAD:
        frame[offsetof(coll_frame_head, taken)] ^= 1;
        break;
    case DEED_ALTER_TAG:
        frame[size_bytes - 1] ^= 0x80;
        break;
    case DEED_REPLAY:
        test_relay_emit(relay, side, frame, size_bytes);
        break;
    case DEED_REORDER:
        memcpy(m->held, frame, size_bytes);
        m->held_bytes = size_bytes;
        return;
    case DEED_DROP:
        return;
    case DEED_CUT:
        test_relay_cut(relay);
        return;
    default:
        break;
    }
    test_relay_emit(relay, side, frame, size_bytes);
    if (side == 0 && m->held_bytes > 0) {
        test_relay_emit(relay, side, m->held, m->held_bytes);
        m->held_bytes = 0;
    }
}

/* Cuts the stream into frames. */
static void tap(test_relay *relay, void *user, int side, const uint8_t *bytes, size_t size_bytes)
{
    meddler *m = user;
    const size_t tag_bytes = tag_bytes_of(m);
    const size_t handshake =
        m->handshake_left[side] < size_bytes ? m->handshake_left[side] : size_bytes;
    if (handshake > 0) {
        test_relay_emit(relay, side, bytes, handshake);
        m->handshake_left[side] -= handshake;
    }
    m->kept[side] = realloc(m->kept[side], m->kept_bytes[side] + size_bytes + 1);
    memcpy(m->kept[side] + m->kept_bytes[side], bytes + handshake, size_bytes - handshake);
    m->kept_bytes[side] += size_bytes - handshake;
    for (;;) {
        coll_frame_head head;
        if (m->kept_bytes[side] < sizeof head) {
            return;
        }
        memcpy(&head, m->kept[side], sizeof head);
        const size_t whole = sizeof head + head.body_bytes + tag_bytes;
        if (m->kept_bytes[side] < whole) {
            return;
        }
        meddle(m, relay, side, m->kept[side], whole);
        m->kept_bytes[side] -= whole;
        memmove(m->kept[side], m->kept[side] + whole, m->kept_bytes[side]);
    }
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t address_bytes)
{
    if (redirected == NULL || address->sa_family != AF_INET) {
        return __real_connect(fd, address, address_bytes);
    }
    struct sockaddr_in to;
    struct sockaddr_in at;
    memcpy(&to, address, sizeof to);
    meddler *m = redirected;
    redirected = NULL;
    m->handshake_left[0] = COLL_OPENING_BYTES + COLL_PROOF_BYTES;
    m->handshake_left[1] = COLL_ANSWER_BYTES;
    m->relay = test_relay_start(&to, &at, m->delay_ns, tap, m);
    return __real_connect(fd, (struct sockaddr *)&at, sizeof at);
}

/* ZeroMQ connects in a thread of its own, so the address is changed that it is given. */
int __wrap_zmq_connect(void *socket, const char *endpoint)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in at;
    char relayed[64];
    const char *port = strrchr(endpoint, ':');
    if (redirected == NULL || strncmp(endpoint, "tcp://127.0.0.1:", 16) != 0) {
        return __real_zmq_connect(socket, endpoint);
    }
    to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    meddler *m = redirected;
    redirected = NULL;
    m->relay = test_relay_start(&to, &at, m->delay_ns, NULL, NULL);
    (void)snprintf(relayed, sizeof relayed, "tcp://127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    return __real_zmq_connect(socket, relayed);
}

static coll_status join(test_rank *rank)
{
    meddler *m = rank->user;
    coll_context_options options = test_rank_options(rank);
    options.transport = m->transport != COLL_TRANSPORT_AUTO ? m->transport : COLL_TRANSPORT_TCP;
    options.tcp_auth = m->auth;
    options.algorithm = COLL_ALGORITHM_DIRECT; /* nothing to measure */
    options.timeout_ns = m->timeout_ns;
    redirected = rank->rank == 1 ? m : NULL;
    return coll_context_create(&options, &rank->context, &rank->error);
}

static coll_status work(test_rank *rank, int rounds)
{
    static float data[2][COUNT];
    coll_status status = COLL_OK;
    for (int round = 0; status == COLL_OK && round < rounds; round++) {
        for (size_t count = 1; status == COLL_OK && count <= COUNT; count *= 10) {
            for (size_t i = 0; i < count; i++) {
                data[rank->rank][i] = (float)(rank->rank + 1);
            }
            status = coll_all_reduce(coll_context_world(rank->context), data[rank->rank],
                                     data[rank->rank], count, COLL_FLOAT32, COLL_SUM, &rank->error);
            for (size_t i = 0; status == COLL_OK && i < count; i++) {
                if (data[rank->rank][i] != 3.0f) {
                    test_rank_fail(rank, "a wrong sum");
                    return COLL_ERR_STATE;
                }
            }
        }
    }
    return status;
}

/* What each rank must say after a deed. */
static const char *message_of(deed what)
{
    switch (what) {
    case DEED_ALTER_BODY:
    case DEED_ALTER_HEAD:
    case DEED_ALTER_TAG:
        return "it was altered on its way";
    case DEED_REPLAY:
        return "it was replayed";
    case DEED_REORDER:
    case DEED_DROP:
        return "frames were reordered, or one was lost";
    default:
        return "waiting for rank";
    }
}

static void meddled_body(test_rank *rank)
{
    const meddler *m = rank->user;
    coll_status status = join(rank);
    if (status == COLL_OK) {
        status = work(rank, 20);
    }
    RANK_CHECK(rank,
               status == COLL_ERR_PEER || (m->what == DEED_CUT && status == COLL_ERR_TIMEOUT));
    RANK_CHECK(rank, strstr(rank->error.message, message_of(m->what)) != NULL);
    RANK_CHECK(rank, m->what == DEED_CUT || strstr(rank->error.message, "rank 1 (host") != NULL);
    coll_context_destroy(rank->context);
}

static void run_meddled(meddler *m, test_rank_body body)
{
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .user = m, .bare = true}, body);
    test_relay_stop(m->relay);
    free(m->kept[0]);
    free(m->kept[1]);
}

static void test_deeds(coll_tcp_auth auth)
{
    for (deed what = DEED_ALTER_BODY; what <= DEED_DROP; what++) {
        for (int frame = 3; frame <= 60; frame += 19) {
            meddler *m = calloc(1, sizeof *m);
            assert_non_null(m);
            *m = (meddler){
                .what = what, .frame = frame, .auth = auth, .timeout_ns = 20 * BASE_NS_PER_S};
            run_meddled(m, meddled_body);
            free(m);
        }
    }
}

static void test_mac_sees_every_deed(void **state)
{
    (void)state;
    test_deeds(COLL_TCP_AUTH_MAC);
}

static void test_encryption_sees_every_deed(void **state)
{
    (void)state;
    test_deeds(COLL_TCP_AUTH_ENCRYPT);
}

static void test_a_cut_is_named_in_time(void **state)
{
    (void)state;
    meddler *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (meddler){.what = DEED_CUT, .frame = 30, .timeout_ns = BASE_NS_PER_S / 2};
    run_meddled(m, meddled_body);
    free(m);
}

static void good_body(test_rank *rank)
{
    RANK_OK(rank, join(rank));
    RANK_OK(rank, work(rank, 2));
    coll_context_destroy(rank->context);
}

static void test_delay_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * (COLL_TCP_AUTH_OFF + 1); i++) {
        meddler *m = calloc(1, sizeof *m);
        assert_non_null(m);
        *m = (meddler){.what = DEED_NOTHING,
                       .transport = i % 2 == 0 ? COLL_TRANSPORT_TCP : COLL_TRANSPORT_ZMQ,
                       .auth = (coll_tcp_auth)(i / 2),
                       .delay_ns = 5 * BASE_NS_PER_MS,
                       .timeout_ns = 20 * BASE_NS_PER_S};
        run_meddled(m, good_body);
        assert_non_null(m->relay);
        free(m);
    }
}

static void disagreeing_body(test_rank *rank)
{
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_TCP;
    options.tcp_auth = rank->rank == 0 ? COLL_TCP_AUTH_MAC : COLL_TCP_AUTH_OFF;
    RANK_CHECK(rank,
               coll_context_create(&options, &rank->context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, "'mac'") != NULL);
    RANK_CHECK(rank, strstr(rank->error.message, "'off'") != NULL);
}

static void test_protection_must_agree(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, disagreeing_body);
}

static void disagreeing_zmq_body(test_rank *rank)
{
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_ZMQ;
    options.tcp_auth = rank->rank == 0 ? COLL_TCP_AUTH_OFF : COLL_TCP_AUTH_MAC;
    RANK_CHECK(rank,
               coll_context_create(&options, &rank->context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, "wants zmq plain") != NULL);
    RANK_CHECK(rank, strstr(rank->error.message, "encrypted") != NULL);
}

static void test_zmq_protection_must_agree(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, disagreeing_zmq_body);
}

/* With key pairs that do not fit, nobody could meet over CURVE: off does without. */
static void plain_zmq_body(test_rank *rank)
{
    const uint8_t no_key[COLL_JOB_KEY_BYTES] = {1};
    const int32_t mine = rank->rank + 1;
    int32_t sum = 0;
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_ZMQ;
    options.algorithm = COLL_ALGORITHM_DIRECT;
    options.curve_public_key = no_key;
    options.curve_secret_key = no_key;
    options.tcp_auth = *(const coll_tcp_auth *)rank->user;
    options.timeout_ns = options.tcp_auth == COLL_TCP_AUTH_OFF ? 20 * BASE_NS_PER_S : BASE_NS_PER_S;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    if (options.tcp_auth != COLL_TCP_AUTH_OFF) {
        RANK_CHECK(rank, status != COLL_OK);
        return;
    }
    RANK_CHECK(rank, status == COLL_OK);
    RANK_CHECK(rank, coll_all_reduce(coll_context_world(rank->context), &mine, &sum, 1, COLL_INT32,
                                     COLL_SUM, &rank->error) == COLL_OK);
    RANK_CHECK(rank, sum == 6);
    coll_context_destroy(rank->context);
    rank->context = NULL;
}

static void test_zmq_is_plain_on_request_only(void **state)
{
    (void)state;
    coll_tcp_auth auth = COLL_TCP_AUTH_OFF;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true, .user = &auth},
                          plain_zmq_body);
    auth = COLL_TCP_AUTH_MAC;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true, .user = &auth},
                          plain_zmq_body);
}

/* Rank 1 has another job's key: rank 0 drops it without an answer, and rank 1 says so in the end. */
static void stranger_body(test_rank *rank)
{
    uint8_t key[COLL_JOB_KEY_BYTES] = {(uint8_t)rank->rank};
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_TCP;
    options.job_key = key;
    options.timeout_ns = BASE_NS_PER_S / 2;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT || (rank->rank == 1 && status == COLL_ERR_PEER));
    RANK_CHECK(rank, strstr(rank->error.message,
                            rank->rank == 0 ? "rank 1 (host" : "rank 0 (host") != NULL);
    RANK_CHECK(rank, (strstr(rank->error.message, "other job key?") != NULL) == (rank->rank == 1));
}

static void test_a_stranger_stays_out(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, stranger_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mac_sees_every_deed),
        cmocka_unit_test(test_encryption_sees_every_deed),
        cmocka_unit_test(test_a_cut_is_named_in_time),
        cmocka_unit_test(test_delay_is_waited_for),
        cmocka_unit_test(test_protection_must_agree),
        cmocka_unit_test(test_zmq_protection_must_agree),
        cmocka_unit_test(test_zmq_is_plain_on_request_only),
        cmocka_unit_test(test_a_stranger_stays_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
