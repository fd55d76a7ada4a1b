/* Runs processes that meet by a bootstrap. Used by the tests beside it. */
#include "meeting.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ringfence/coll_error.h"
#include "support.h"

bool meeting_stops;

meeting_process meeting_rank(int rank, int world_size)
{
    return (meeting_process){
        .options = {
            .rank = rank, .world_size = world_size, .address = "127.0.0.1", .timeout_ns = LONG_NS}};
}

void meeting_begin(meeting *m, const char *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *at = NULL;
    struct sockaddr_in6 bound = {.sin6_family = AF_UNSPEC};
    socklen_t length = sizeof bound;
    const int on = 1;
    *m = (meeting){.count = 0};
    assert_int_equal(getaddrinfo(address, NULL, &hints, &at), 0);
    m->held = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(m->held >= 0);
    assert_int_equal(setsockopt(m->held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(m->held, at->ai_addr, at->ai_addrlen), 0);
    assert_int_equal(getsockname(m->held, (struct sockaddr *)&bound, &length), 0);
    m->port = ntohs(bound.sin6_port); /* it stands there in both families */
    freeaddrinfo(at);
}

void meeting_close(meeting *m)
{
    assert_int_equal(close(m->held), 0);
}

/* ---- in a process ---- */

static int64_t exchange_ns = 10 * BASE_NS_PER_S;

static coll_status exchange(const coll_context_options *options, size_t size_bytes,
                            coll_error *error)
{
    static uint8_t mine[COLL_EXCHANGE_BYTES_MAX];
    static uint8_t all[MEETING_RANKS_MAX * COLL_EXCHANGE_BYTES_MAX];
    memset(mine, 'a' + options->rank, size_bytes);
    const coll_status status = options->exchange(options->exchange_user, mine, all, size_bytes,
                                                 base_deadline_after_ns(exchange_ns), error);
    for (size_t i = 0; status == COLL_OK && i < (size_t)options->world_size * size_bytes; i++) {
        if (all[i] != 'a' + i / size_bytes) {
            return coll_fail(error, COLL_ERR_STATE, "byte %zu of %zu each is wrong", i, size_bytes);
        }
    }
    return status;
}

static coll_status exchange_some(const coll_context_options *options, coll_error *error)
{
    static const size_t sizes[] = {1, 0, COLL_EXCHANGE_BYTES_MAX, 384};
    coll_status status = COLL_OK;
    for (size_t i = 0; status == COLL_OK && i < sizeof sizes / sizeof sizes[0]; i++) {
        status = exchange(options, sizes[i], error);
    }
    return status;
}

static coll_status add_up(const coll_context_options *options, coll_error *error)
{
    coll_context *context = NULL;
    int32_t sum = options->rank + 1;
    coll_status status = coll_context_create(options, &context, error);
    if (status == COLL_OK) {
        status = coll_all_reduce(coll_context_world(context), &sum, &sum, 1, COLL_INT32, COLL_SUM,
                                 error);
    }
    if (status == COLL_OK && sum != options->world_size * (options->world_size + 1) / 2) {
        status = coll_fail(error, COLL_ERR_STATE, "the sum is %d", sum);
    }
    coll_context_destroy(context);
    return status;
}

static coll_status run(const meeting_process *process, coll_error *error)
{
    coll_bootstrap *bootstrap = NULL;
    exchange_ns = process->exchange_ns != 0 ? process->exchange_ns : exchange_ns;
    coll_context_options options = {
        .size = sizeof options, .transport = COLL_TRANSPORT_TCP, .timeout_ns = 10 * BASE_NS_PER_S};
    coll_status status = coll_bootstrap_open(&process->options, &bootstrap, error);
    if (status == COLL_OK) {
        coll_bootstrap_apply(bootstrap, &options);
        switch (process->deed) {
        case MEETING_EXCHANGE:
            status = exchange_some(&options, error);
            break;
        case MEETING_UNEVEN:
            status = exchange(&options, 8 + (size_t)options.rank, error);
            break;
        case MEETING_LARGE:
            status = exchange(&options, COLL_EXCHANGE_BYTES_MAX, error);
            break;
        case MEETING_DIE:
            (void)raise(SIGKILL);
            break;
        case MEETING_STOP:
            (void)raise(SIGSTOP);
            break;
        case MEETING_GIVE:
            meeting_stops = true;
            status = exchange(&options, COLL_EXCHANGE_BYTES_MAX, error);
            break;
        case MEETING_CONTEXT:
            status = add_up(&options, error);
            break;
        }
    }
    coll_bootstrap_close(bootstrap);
    return status;
}

/* ---- in the test ---- */

int meeting_start(meeting *m, const meeting_process *given)
{
    int ends[2];
    meeting_process process = *given;
    const pid_t parent = getpid();
    const int number = m->count++;
    assert_true(number < MEETING_RANKS_MAX);
    process.options.size = sizeof process.options;
    process.options.port = process.options.port != 0 ? process.options.port : m->port;
    assert_int_equal(pipe(ends), 0);
    m->pids[number] = fork();
    assert_true(m->pids[number] >= 0);
    if (m->pids[number] == 0) {
        coll_error error = {.message = ""};
        (void)close(ends[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(1);
        }
        if (process.before != NULL) {
            process.before(process.options.rank);
        }
        error.status = run(&process, &error);
        _exit(write(ends[1], &error, sizeof error) == (ssize_t)sizeof error ? 0 : 1);
    }
    assert_int_equal(close(ends[1]), 0);
    m->pipes[number] = ends[0];
    return number;
}

coll_status meeting_end(meeting *m, int number, coll_error *error)
{
    int status = 0;
    *error = (coll_error){.status = COLL_ERR_ABORTED, .message = "it was killed"};
    const ssize_t got = read(m->pipes[number], error, sizeof *error); /* of PIPE_BUF at most */
    assert_true(got == 0 || got == (ssize_t)sizeof *error);
    assert_int_equal(close(m->pipes[number]), 0);
    assert_int_equal(waitpid(m->pids[number], &status, 0), m->pids[number]);
    return error->status;
}

void meeting_kill(meeting *m, int number)
{
    coll_error error;
    assert_int_equal(kill(m->pids[number], SIGKILL), 0);
    assert_status(meeting_end(m, number, &error), COLL_ERR_ABORTED);
}
