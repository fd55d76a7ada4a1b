/* engine/pmi.c against an engine whose answers this test has written before they are asked for. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/store.h"
#include "support.h"

enum { TEXT_BYTES = 8192 };

static const launch_store_kind *const pmi = &launch_store_pmi;
static int engine_fd;
static launch_place place;
static const launch_wait soon = {.deadline_ns = 0, .signal_fd = -1};

static const char welcome[] = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
                              "cmd=my_kvsname kvsname=kvs_1 rc=0\n";

static int connect_engine(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    engine_fd = pair[0];
    place = (launch_place){.engine = LAUNCH_ENGINE_PMI, .nodes = 3, .node = 1, .pmi_fd = pair[1]};
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    if (engine_fd >= 0) {
        (void)close(engine_fd);
    }
    return 0;
}

static void answer(const char *text)
{
    assert_int_equal(write(engine_fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* All that was asked. */
static const char *asked(void)
{
    static char text[TEXT_BYTES];
    const ssize_t got = recv(engine_fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void *open_store(void)
{
    void *store = NULL;
    base_error error;
    answer(welcome);
    assert_ok(pmi->open(&place, &soon, &store, &error), &error);
    (void)asked();
    return store;
}

static void what_is_put_and_got(void **state)
{
    (void)state;
    char value[LAUNCH_STORE_VALUE_BYTES];
    int64_t size = 0;
    base_error error;
    void *store = open_store();
    assert_ok(pmi->size(store, &size, &error), &error);
    assert_int_equal(size, 3);
    answer("cmd=put_result rc=0 msg=success\n"
           "cmd=barrier_out rc=0\n"
           "cmd=get_result rc=0 msg=success value=40123,10.0.0.1\n"
           "cmd=finalize_ack rc=0\n");
    assert_ok(pmi->put(store, "a-key", "a,value", &error), &error);
    assert_ok(pmi->fence(store, &soon, &error), &error);
    assert_ok(pmi->get(store, 2, "b-key", value, &error), &error);
    assert_string_equal(value, "40123,10.0.0.1");
    pmi->close(store);
    assert_string_equal(asked(), "cmd=put kvsname=kvs_1 key=a-key value=a,value\n"
                                 "cmd=barrier_in\n"
                                 "cmd=get kvsname=kvs_1 key=b-key\n"
                                 "cmd=finalize\n");
}

/* What get says of an answer: its status. */
static base_status get_answer(const char *line)
{
    char value[LAUNCH_STORE_VALUE_BYTES] = "";
    base_error error;
    void *store = open_store();
    answer(line);
    const base_status status = pmi->get(store, 0, "key", value, &error);
    pmi->close(store); /* which nobody answers: the deadline has passed */
    (void)close(place.pmi_fd);
    (void)close(engine_fd);
    (void)connect_engine(NULL);
    return status;
}

static void wrong_answers_are_refused(void **state)
{
    (void)state;
    static char long_value[2 * LAUNCH_STORE_VALUE_BYTES];
    static char long_line[4 * LAUNCH_STORE_VALUE_BYTES];
    (void)snprintf(long_value, sizeof long_value, "cmd=get_result rc=0 value=%0*d\n",
                   LAUNCH_STORE_VALUE_BYTES, 7);
    (void)memset(long_line, 'a', sizeof long_line - 1);
    assert_status(get_answer("cmd=get_result rc=0 value=x\n"), BASE_OK);
    assert_status(get_answer("cmd=get_result rc=-1 msg=key_not_found value=unknown\n"),
                  BASE_ERR_PEER);
    assert_status(get_answer("cmd=get_result rc=0 msg=success\n"), BASE_ERR_PEER);
    assert_status(get_answer("cmd=put_result rc=0 value=x\n"), BASE_ERR_PEER);
    assert_status(get_answer("\n"), BASE_ERR_PEER);
    assert_status(get_answer("value=x cmd=\n"), BASE_ERR_PEER);
    assert_status(get_answer(long_value), BASE_ERR_PEER);
    assert_status(get_answer(long_line), BASE_ERR_PEER);
    assert_status(get_answer("cmd=get_result rc=0 val"), BASE_ERR_TIMEOUT);
}

static void an_engine_that_goes_is_noticed(void **state)
{
    (void)state;
    base_error error;
    void *store = open_store();
    assert_int_equal(shutdown(engine_fd, SHUT_WR), 0);
    assert_status(pmi->fence(store, &soon, &error), BASE_ERR_PEER);
    pmi->close(store);
}

static void one_that_says_nothing_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    void *store = NULL;
    base_error error;
    const launch_wait wait = {.deadline_ns = base_deadline_after_ns(BASE_NS_PER_MS),
                              .signal_fd = -1};
    assert_status(pmi->open(&place, &wait, &store, &error), BASE_ERR_TIMEOUT);
    assert_null(store);
}

/* What the fence says after the signal, which a wait so long would not outlast. */
static base_status fence_after(void *store, int number, bool in_slurm, int64_t wait_ns,
                               int *ended_by)
{
    sigset_t one;
    sigset_t before;
    base_error error;
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    const int signal_fd = signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK);
    assert_true(signal_fd >= 0);
    assert_int_equal(raise(number), 0);
    const launch_wait wait = {.deadline_ns = base_deadline_after_ns(wait_ns),
                              .signal_fd = signal_fd,
                              .in_slurm = in_slurm,
                              .ended_by = ended_by};
    const base_status status = pmi->fence(store, &wait, &error);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    (void)close(signal_fd);
    return status;
}

static void a_signal_ends_waiting_and_is_named(void **state)
{
    static const struct {
        int number;
        bool in_slurm;
        bool ends;
    } signals[] = {{SIGTERM, false, true},
                   {SIGINT, true, true},
                   {SIGUSR1, true, true}, /* sbatch --signal=USR1 */
                   {SIGUSR1, false, false}};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        int ended_by = 0;
        assert_int_equal(close_engine(state) + connect_engine(state),
                         0); /* the store closes its end */
        void *store = open_store();
        const bool ends = signals[i].ends;
        assert_int_equal(fence_after(store, signals[i].number, signals[i].in_slurm,
                                     ends ? 60 * BASE_NS_PER_S : BASE_NS_PER_MS, &ended_by),
                         ends ? BASE_ERR_ABORTED : BASE_ERR_TIMEOUT);
        assert_int_equal(ended_by, ends ? signals[i].number : 0);
        pmi->close(store);
    }
}

/* A variable that is left over may name any file of the process. */
static void another_file_is_not_written_to(void **state)
{
    (void)state;
    void *store = NULL;
    base_error error;
    const int fd = memfd_create("other", MFD_CLOEXEC);
    assert_true(fd >= 0);
    const launch_place other = {.engine = LAUNCH_ENGINE_PMI, .nodes = 2, .node = 0, .pmi_fd = fd};
    assert_status(pmi->open(&other, &soon, &store, &error), BASE_ERR_INVALID);
    assert_has(error.message, " is no socket");
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_file_is_not_written_to),
        cmocka_unit_test_setup_teardown(what_is_put_and_got, connect_engine, close_engine),
        cmocka_unit_test_setup_teardown(wrong_answers_are_refused, connect_engine, close_engine),
        cmocka_unit_test_setup_teardown(an_engine_that_goes_is_noticed, connect_engine,
                                        close_engine),
        cmocka_unit_test_setup_teardown(one_that_says_nothing_is_waited_for_until_the_deadline,
                                        connect_engine, close_engine),
        cmocka_unit_test_setup_teardown(a_signal_ends_waiting_and_is_named, connect_engine,
                                        close_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
