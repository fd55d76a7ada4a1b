/* Failures as they travel: which message counts, when it is this rank's, what a peer may not put
 * into them; and what a rank says when its own communicator fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "net_stage.h"
#include "support.h"
#include "transport/socket/comm.h"
#include "transport/tcp/tcp.h"

enum { REASON_BYTES = 24 }; /* before the message */

static bool no_memory; /* for libcoll */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

static int advanced; /* looks at messages */

bool __real_coll_p2p_advance(coll_comm *comm);
bool __wrap_coll_p2p_advance(coll_comm *comm);

bool __wrap_coll_p2p_advance(coll_comm *comm)
{
    advanced++;
    return __real_coll_p2p_advance(comm);
}

typedef struct stage {
    net_stage core; /* first */
    int sent;
    coll_frame_head head; /* of the last frame, */
    uint8_t body[COLL_FRAME_REASON_BYTES];
    int forgotten; /* when nothing had been sent yet */
} stage;

static void note_sent(coll_context *context, int peer, const coll_net_frames *frames,
                      coll_net_when when)
{
    stage *s = context->net;
    assert_int_equal(peer, STAGE_PEER);
    assert_int_equal(frames->count, 1);
    assert_int_equal(when, COLL_NET_NOW);
    assert_true(frames->heads[0].body_bytes <= sizeof s->body);
    s->sent++;
    s->head = frames->heads[0];
    if (s->head.body_bytes > 0) {
        memcpy(s->body, frames->bodies, s->head.body_bytes);
    }
}

static void note_forgotten(coll_context *context, coll_comm *comm)
{
    stage *s = context->net;
    assert_ptr_equal(comm, &s->core.comm);
    s->forgotten += s->sent == 0;
}

static const coll_net_links links = {.send = note_sent, .forget = note_forgotten};

static stage *open_stage(void)
{
    stage *s = net_stage_alloc(sizeof *s);
    net_stage_open(&s->core, &links, &coll_tcp_transport, 1024);
    (void)snprintf(s->core.identities[STAGE_PEER].host, COLL_HOST_BYTES, "far");
    s->core.comm.sequence = 3;
    return s;
}

static void close_stage(stage *s)
{
    net_stage_close(&s->core);
    free(s);
}

static void receive_notice(stage *s, uint64_t sequence, coll_status status, const char *message,
                           size_t length)
{
    uint8_t body[COLL_FRAME_REASON_BYTES] = {0};
    const int32_t code = status;
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_FAILED,
                                  .comm_id = STAGE_COMM_ID,
                                  .body_bytes = (uint32_t)(REASON_BYTES + length)};
    memcpy(body, &sequence, sizeof sequence);
    memcpy(body + sizeof sequence, &code, sizeof code);
    memcpy(body + REASON_BYTES, message, length);
    assert_true(coll_net_commit(&s->core.context, STAGE_PEER, &head, body));
}

static void receive_mismatch(stage *s, uint64_t sequence, const char *message)
{
    receive_notice(s, sequence, COLL_ERR_MISMATCH, message, strlen(message));
}

/* A mismatch names both ranks by itself; else the peer's name is put before its message. */
static void it_is_told_whose_words_they_are(void **state)
{
    static const char name[] = "rank 1 (host far, pid 0)";
    static const struct {
        coll_status status;
        coll_status taken;
        const char *between;
    } cases[] = {{COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, NULL},
                 {COLL_ERR_TIMEOUT, COLL_ERR_TIMEOUT, " says: "},
                 {COLL_ERR_PEER, COLL_ERR_PEER, " says: "},
                 {COLL_ERR_ABORTED, COLL_ERR_ABORTED, " was "},
                 {COLL_ERR_MEMORY, COLL_ERR_PEER, " failed: "},
                 {COLL_ERR_STATE, COLL_ERR_PEER, " failed: "},
                 {COLL_OK, COLL_ERR_PEER, " failed: "},
                 {(coll_status)-12345, COLL_ERR_PEER, " failed: "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[128] = "it";
        stage *s = open_stage();
        if (cases[i].between != NULL) {
            (void)snprintf(expected, sizeof expected, "%s%sit", name, cases[i].between);
        }
        receive_notice(s, 0, cases[i].status, "it", 2);
        assert_true(s->core.comm.failed);
        assert_int_equal(s->core.comm.failure.status, cases[i].taken);
        assert_string_equal(s->core.comm.failure.message, expected);
        close_stage(s);
    }
}

/* What is passed on is the message of the rank that failed first, with its name: not a name before
 * another, however many ranks they come by. A rank that is named itself passes that on, so that all others
 * name the same one. */
static void messages_are_passed_on_as_they_were(void **state)
{
    static const uint32_t speakers[] = {0, 1 + STAGE_PEER, 1, 99}; /* the last one cannot be */
    (void)state;
    for (size_t i = 0; i < sizeof speakers / sizeof speakers[0]; i++) {
        uint8_t body[REASON_BYTES + 2] = {0};
        const int32_t code = COLL_ERR_TIMEOUT;
        const uint64_t told = UINT64_MAX; /* this rank knows that it has not gone, */
        uint64_t gone = 0;
        const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                      .kind = COLL_FRAME_FAILED,
                                      .comm_id = STAGE_COMM_ID,
                                      .body_bytes = sizeof body};
        uint32_t origin = 0;
        stage *s = open_stage();
        memcpy(body + 8, &code, sizeof code);
        memcpy(body + 12, &speakers[i], sizeof speakers[i]);
        memcpy(body + 16, &told, sizeof told);
        memcpy(body + REASON_BYTES, "it", 2);
        assert_true(coll_net_commit(&s->core.context, STAGE_PEER, &head, body));
        assert_string_equal(s->core.comm.failure.message, "rank 1 (host far, pid 0) says: it");
        assert_int_equal(s->sent, 1);
        assert_int_equal(s->head.body_bytes, REASON_BYTES + 2);
        memcpy(&origin, s->body + 12, sizeof origin);
        assert_int_equal(origin, speakers[i] == 1 ? 1 : 1 + STAGE_PEER);
        memcpy(&gone, s->body + 16, sizeof gone);
        assert_int_equal(gone, 1U << STAGE_PEER); /* and passes on what it was told */
        assert_memory_equal(s->body + REASON_BYTES, "it", 2);
        close_stage(s);
    }
}

/* Other communicators go on after that, and are not held up by looks. */
static void nobody_looks_when_all_has_been_taken(void **state)
{
    stage *s = open_stage();
    (void)state;
    receive_mismatch(s, 4, "four");
    coll_net_look(&s->core.context);
    assert_true(s->core.net.watchful);
    s->core.comm.sequence = 4;
    coll_net_look(&s->core.context);
    assert_true(s->core.comm.failed);
    assert_false(s->core.net.watchful);
    close_stage(s);
    s = open_stage();
    receive_mismatch(s, 4, "four");
    (void)coll_comm_fail(&s->core.comm, COLL_ERR_TIMEOUT, "something else");
    coll_net_look(&s->core.context);
    assert_false(s->core.net.watchful);
    close_stage(s);
}

/* Only a communicator with something under way can wait for a rank that has left. */
static void idle_communicators_are_not_looked_at(void **state)
{
    coll_error error;
    stage *s = open_stage();
    (void)state;
    assert_ok(coll_p2p_open(&s->core.comm, &error), &error);
    coll_net_mark_left(&s->core.context, STAGE_PEER);
    advanced = 0;
    coll_net_look(&s->core.context);
    assert_int_equal(advanced, 0);
    coll_busy_add(&s->core.comm);
    coll_net_look(&s->core.context);
    assert_int_equal(advanced, 1);
    s->core.net.left[STAGE_PEER] = false; /* another one has, which is not in it */
    coll_net_look(&s->core.context);
    assert_int_equal(advanced, 1);
    coll_busy_remove(&s->core.comm);
    coll_p2p_close(&s->core.comm);
    close_stage(s);
}

/* A peer's message goes to this rank's terminal. */
static void messages_are_only_text(void **state)
{
    char longest[COLL_FRAME_REASON_BYTES - REASON_BYTES];
    (void)state;
    stage *s = open_stage();
    receive_mismatch(s, 0, "a\033[2Jb\nc\177d");
    assert_string_equal(s->core.comm.failure.message, "a?[2Jb?c?d");
    close_stage(s);
    s = open_stage();
    receive_notice(s, 0, COLL_ERR_PEER, "", 1);
    assert_string_equal(s->core.comm.failure.message,
                        "rank 1 (host far, pid 0) says: a failure without a message");
    close_stage(s);
    s = open_stage();
    memset(longest, 'x', sizeof longest); /* without an end */
    receive_notice(s, 0, COLL_ERR_PEER, longest, sizeof longest);
    assert_int_equal(strlen(s->core.comm.failure.message), COLL_ERROR_MESSAGE_BYTES - 1);
    close_stage(s);
}

/* What stands before the operation that failed can still end well; the first of several counts. */
static void a_failure_waits_for_its_operation(void **state)
{
    stage *s = open_stage();
    (void)state;
    receive_mismatch(s, 9, "nine");
    receive_mismatch(s, 7, "seven");
    receive_mismatch(s, 8, "eight");
    assert_true(s->core.net.watchful);
    for (uint64_t sequence = 3; sequence < 7; sequence++) {
        s->core.comm.sequence = sequence;
        coll_net_look(&s->core.context);
        assert_false(s->core.comm.failed);
    }
    s->core.comm.sequence = 7;
    coll_net_look(&s->core.context);
    assert_true(s->core.comm.failed);
    assert_string_equal(s->core.comm.failure.message, "seven");
    assert_int_equal(s->sent, 1); /* this rank's own word of it, about the same operation */
    uint64_t about = 0;
    memcpy(&about, s->body, sizeof about);
    assert_int_equal(about, 7);
    close_stage(s);
}

static void without_memory_it_does_not_wait(void **state)
{
    stage *s = open_stage();
    (void)state;
    no_memory = true;
    receive_mismatch(s, 9, "nine");
    no_memory = false;
    assert_true(s->core.comm.failed);
    assert_string_equal(s->core.comm.failure.message, "nine");
    close_stage(s);
}

static void a_connection_is_lost_once(void **state)
{
    stage *s = open_stage();
    (void)state;
    coll_net_lost(&s->core.context, STAGE_PEER, "cut");
    assert_int_equal(s->core.comm.failure.status, COLL_ERR_PEER);
    assert_string_equal(s->core.comm.failure.message,
                        "the connection to rank 1 (host far, pid 0) is lost: cut");
    coll_net_lost(&s->core.context, STAGE_PEER, "cut again");
    assert_int_equal(s->core.net.left_count, 1);
    assert_int_equal(s->sent, 0); /* there is nobody to tell */
    close_stage(s);
}

static void a_rank_that_said_goodbye_is_not_lost(void **state)
{
    const coll_frame_head goodbye = {.magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_GOODBYE};
    uint8_t scratch[8];
    uint8_t *body = NULL;
    coll_comm *comm = NULL;
    stage *s = open_stage();
    (void)state;
    assert_true(coll_net_commit(&s->core.context, STAGE_PEER, &goodbye, NULL));
    assert_int_equal(s->core.net.left_count, 1);
    coll_net_lost(&s->core.context, STAGE_PEER, "closed");
    assert_false(s->core.comm.failed);
    assert_int_equal(s->core.net.left_count, 1);
    /* It said that it says no more. */
    assert_int_equal(
        coll_net_find_body(&s->core.context, STAGE_PEER, &goodbye, scratch, &body, &comm),
        COLL_NET_BAD);
    coll_net_farewell(&s->core.context);
    assert_int_equal(s->sent, 0);
    close_stage(s);
}

/* The caller has its buffers back before anything else is done, and peers are sent why. */
static void an_own_failure_is_told(void **state)
{
    uint64_t about = 1;
    int32_t status = 0;
    stage *s = open_stage();
    (void)state;
    (void)coll_comm_fail(&s->core.comm, COLL_ERR_MEMORY, "no memory for %d", 5);
    (void)coll_comm_fail(&s->core.comm, COLL_ERR_PEER, "and more");
    assert_int_equal(s->forgotten, 1);
    assert_int_equal(s->sent, 1);
    assert_int_equal(s->head.kind, COLL_FRAME_FAILED);
    assert_int_equal(s->head.comm_id, STAGE_COMM_ID);
    assert_int_equal(s->head.body_bytes, REASON_BYTES + strlen("no memory for 5"));
    memcpy(&about, s->body, sizeof about);
    memcpy(&status, s->body + sizeof about, sizeof status);
    assert_int_equal(about, 0);
    assert_int_equal(status, COLL_ERR_MEMORY);
    assert_memory_equal(s->body + REASON_BYTES, "no memory for 5", strlen("no memory for 5"));
    close_stage(s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_whose_words_they_are),
        cmocka_unit_test(messages_are_passed_on_as_they_were),
        cmocka_unit_test(messages_are_only_text),
        cmocka_unit_test(a_failure_waits_for_its_operation),
        cmocka_unit_test(nobody_looks_when_all_has_been_taken),
        cmocka_unit_test(idle_communicators_are_not_looked_at),
        cmocka_unit_test(without_memory_it_does_not_wait),
        cmocka_unit_test(a_connection_is_lost_once),
        cmocka_unit_test(a_rank_that_said_goodbye_is_not_lost),
        cmocka_unit_test(an_own_failure_is_told),
    };
    return cmocka_run_group_tests_name("coll-net-fail", tests, NULL, NULL);
}
