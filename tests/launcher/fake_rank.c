/* A rank that trains nothing, for the tests of the launcher. It joins, exchanges, reports made-up
 * steps and finishes, over the real control client. The environment makes it misbehave:
 *   FAKE_WHAT   what it does: kill, segv, stop, exit, silent, fail, secondary, garbage, oversize, …
 *   FAKE_RANK   which rank does it (default: none)
 *   FAKE_WORLD  only in a job of so many ranks (default: any)
 *   FAKE_AT     when: the number of the point in its life (see at_point)
 *   FAKE_LINES  "same" or "own": a line on stdout at every step; "much": more than waits for a reader
 *   FAKE_HEIR   a rank that exits leaves a child that holds its connection; rank 0 then fails
 *   FAKE_ABORT  rank 0 fails by itself at that point, and reports it
 *   FAKE_SAY    a rank that hangs or ignores SIGTERM prints that it does
 *   FAKE_ISA    rank 1 has these kernels, rank 0 avx2
 *   FAKE_DUMP   a rank that fails has a flight record of so many bytes, begun after the abort */
#include <control.pb-c.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "base/version.h"
#include "client_impl.h"
#include "proto/client.h"
#include "proto/digest.h"

enum { MUCH_LINES = 40000, MUCH_LINE_BYTES = 100, RANKS_SEEN_MAX = 64 };

enum {
    POINT_FINISHED = -2,
    POINT_STARTED = 0,
    POINT_OPENED,
    POINT_JOINED,
    POINT_EXCHANGED,
    POINT_READY,
    POINT_STEPS
};

typedef struct fake_rank {
    proto_identity identity;
    proto_client *client;
    const char *what;
    long rank;
    long at;
    uint64_t step;
    bool wrong_parameters;
    bool wrong_shard;
    bool diverges;
    bool connecting;
    const char *build;
    int32_t pids[RANKS_SEEN_MAX]; /* of the ranks, from the last exchange */
} fake_rank;

static long env_long(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* Writes bytes to the control connection, without the bus. */
static void send_raw(fake_rank *fake, size_t size_bytes)
{
    static uint8_t bytes[PROTO_RANK_MESSAGE_BYTES_MAX];
    memset(bytes, 0xff, sizeof bytes);
    (void)pthread_mutex_lock(&fake->client->lock);
    (void)client_queue_put(&fake->client->queue, bytes, size_bytes);
    (void)pthread_mutex_unlock(&fake->client->lock);
    const uint64_t one = 1;
    (void)!write(fake->client->wake_fd, &one, sizeof one);
}

/* As rank/worker has it: whether a peer's failure is secondary, the launcher decides. */
static void send_failed(fake_rank *fake, base_status status, const char *message)
{
    char text[BASE_ERROR_MESSAGE_BYTES];
    char collective[] = "all_reduce #7";
    Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    (void)snprintf(text, sizeof text, "%s", message);
    failed.status = status;
    failed.exit_code = BASE_EXIT_ERROR;
    failed.step = fake->step;
    failed.message = text;
    failed.collective = collective;
    failed.secondary = status == BASE_ERR_ABORTED;
    failed.connecting = fake->connecting;
    failed.unreached = fake->connecting ? 1 : 0; /* to rank 0 */
    proto_client_failed(fake->client, &failed);
}

/* Ends the control thread and closes the connection. */
static void hang_up(fake_rank *fake)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&fake->client->lock);
    fake->client->closing = true;
    (void)pthread_mutex_unlock(&fake->client->lock);
    (void)!write(fake->client->wake_fd, &one, sizeof one);
    (void)pthread_join(fake->client->thread, NULL);
    proto_bus_close(fake->client->bus);
}

/* Closes its connection before it dies, which it does only after SIGTERM. */
static void die_slowly(fake_rank *fake, int signal_number)
{
    int received = 0;
    sigset_t term;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    hang_up(fake);
    (void)sigwait(&term, &received);
    (void)raise(signal_number);
}

static void leave(fake_rank *fake, int exit_code)
{
    proto_client_close(fake->client);
    exit(exit_code);
}

/* The child keeps open what the process has open. */
static void leave_heir(void)
{
    if (fork() == 0) {
        for (;;) {
            (void)pause();
        }
    }
}

/* Sees another rank's process end, and reports that it fails because of that. */
static void miss(fake_rank *fake, int rank)
{
    const int fd = (int)syscall(SYS_pidfd_open, fake->pids[rank], 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    const bool gone = fd < 0 && errno == ESRCH; /* the launcher has seen its end */
    if (!gone && (fd < 0 || poll(&end, 1, -1) != 1)) {
        leave(fake, 9);
    }
    send_failed(fake, BASE_ERR_PEER, "a peer has gone");
    leave(fake, BASE_EXIT_ERROR);
}

static void hang(void)
{
    if (getenv("FAKE_SAY") != NULL) {
        (void)printf("here I stay\n");
        (void)fflush(stdout);
    }
    for (;;) {
        (void)pause();
    }
}

/* Has reached a point of its life. Misbehaves here if the environment says so. */
static void at_point(fake_rank *fake, long point)
{
    const char *what = fake->what;
    const bool heir = getenv("FAKE_HEIR") != NULL;
    if (heir && fake->identity.rank == 0 && fake->at == point) {
        miss(fake, (int)fake->rank);
    }
    if (getenv("FAKE_ABORT") != NULL && fake->identity.rank == 0 && fake->at == point) {
        send_failed(fake, BASE_ERR_ABORTED, "aborted: enough of this");
        leave(fake, BASE_EXIT_ERROR);
    }
    if (what == NULL || fake->rank != env_long("RANK", -1) || fake->at != point ||
        env_long("FAKE_WORLD", env_long("WORLD_SIZE", 0)) != env_long("WORLD_SIZE", 0)) {
        return;
    }
    if (strcmp(what, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(what, "segv") == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer has a handler of its own */
        (void)raise(SIGSEGV);
    } else if (strcmp(what, "stop") == 0) {
        (void)raise(SIGSTOP);
    } else if (strcmp(what, "exit") == 0) {
        if (heir) {
            leave_heir();
        }
        _exit(3);
    } else if (strcmp(what, "silent") == 0) {
        leave(fake, 0);
    } else if (strcmp(what, "hang") == 0) {
        hang();
    } else if (strcmp(what, "ignore-term") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        hang();
    } else if (strcmp(what, "fail") == 0) {
        send_failed(fake, BASE_ERR_IO, "the disk is full");
        leave(fake, 5);
    } else if (strcmp(what, "garbage") == 0) {
        send_raw(fake, 64);
    } else if (strcmp(what, "oversize") == 0) {
        send_raw(fake, PROTO_RANK_MESSAGE_BYTES_MAX);
    } else if (strcmp(what, "mute") == 0) { /* closes the connection and stays */
        hang_up(fake);
        for (;;) {
            (void)pause();
        }
    } else if (strcmp(what, "die-slowly") == 0) {
        die_slowly(fake, SIGKILL);
    } else if (strcmp(what, "abort-slowly") == 0) {
        die_slowly(fake, SIGABRT);
    } else if (strcmp(what, "wrong-key") == 0) {
        proto_keypair_make(&fake->client->key.rank);
    } else if (strcmp(what, "other-rank") == 0) {
        fake->client->identity.rank = 0;
    } else if (strcmp(what, "not-connected") == 0) {
        fake->connecting = true;
        miss(fake, 0);
    } else if (strcmp(what, "other-build") == 0) {
        fake->build = "of last week";
    } else if (strcmp(what, "parameters") == 0) {
        fake->wrong_parameters = true;
    } else if (strcmp(what, "shard") == 0) {
        fake->wrong_shard = true;
    } else if (strcmp(what, "diverge") == 0) {
        fake->diverges = true;
    } else {
        (void)fprintf(stderr, "fake rank: what is '%s'?\n", what);
        leave(fake, 9);
    }
}

static void write_record(void *user, int fd, const char *reason)
{
    const long size_bytes = env_long("FAKE_DUMP", 0);
    const fake_rank *fake = user;
    (void)reason;
    (void)dprintf(fd, "{\"rank\":%d,\"pending\":[],\"completed\":[],\"pad\":\"%*d\"}",
                  fake->identity.rank, (int)size_bytes, 0);
}

/* Reports a failure as the trainer does, and exits. */
static void fail(fake_rank *fake, const base_error *error)
{
    const bool secondary = error->status == BASE_ERR_ABORTED || error->status == BASE_ERR_PEER;
    if (!secondary) {
        base_log(BASE_LOG_ERROR, "%s", error->message);
    }
    if (getenv("FAKE_DUMP") != NULL) {
        proto_client_on_dump(fake->client, write_record, fake);
        atomic_store(&fake->client->dumped, false);
    }
    send_failed(fake, error->status, error->message);
    leave(fake, BASE_EXIT_ERROR);
}

/* One exchange: checks that all ranks' numbers come back in rank order, and notes their pids. */
static void exchange(fake_rank *fake)
{
    base_error error = {0};
    int32_t all[RANKS_SEEN_MAX][2] = {0};
    const int32_t mine[2] = {fake->identity.rank, getpid()};
    const base_status status = proto_client_exchange(
        fake->client, mine, all, sizeof mine,
        base_deadline_after_ns(fake->identity.job.parallel.timeout_ms * BASE_NS_PER_MS), &error);
    if (status != BASE_OK) {
        fail(fake, &error);
    }
    for (int rank = 0; rank < fake->identity.world_size && rank < RANKS_SEEN_MAX; rank++) {
        if (all[rank][0] != rank) {
            (void)base_fail(&error, BASE_ERR_INVALID, "exchange gave %d for rank %d", all[rank][0],
                            rank);
            fail(fake, &error);
        }
        fake->pids[rank] = all[rank][1];
    }
}

static void ready(fake_rank *fake)
{
    uint8_t digest[PROTO_DIGEST_BYTES] = {1};
    char sentence[64];
    char transport[] = "shm";
    char algorithm[] = "direct";
    char avx2[] = "avx2";
    Ringfence__Control__Ready message = RINGFENCE__CONTROL__READY__INIT;
    (void)snprintf(sentence, sizeof sentence, "rank %d goed first", fake->identity.rank);
    digest[1] = fake->wrong_parameters ? 1 : 0;
    message.model_params = 470528;
    message.params_blake2b256.data = digest;
    message.params_blake2b256.len = sizeof digest;
    message.sentences_total = 10 * (uint64_t)proto_job_replicas(&fake->identity.job);
    message.sentences_shard = fake->wrong_shard ? 9 : 10;
    if (getenv("FAKE_UNEVEN") != NULL) { /* the first rank has one of the second's */
        message.sentences_shard += fake->identity.rank == 0;
        message.sentences_shard -= fake->identity.rank == 1;
    }
    message.first_sentence = sentence;
    message.transport = transport;
    message.algorithm = algorithm;
    char *isa = getenv("FAKE_ISA");
    message.instruction_set = isa != NULL && fake->identity.rank == 1 ? isa : avx2;
    proto_client_ready(fake->client, &message);
}

/* Of a pipeline only one rank of the last stage says what was computed. */
static void report_stage(const fake_rank *fake, Ringfence__Control__Step *message)
{
    const proto_job *job = &fake->identity.job;
    const proto_place place = proto_job_place(job, fake->identity.rank);
    const bool answers = place.stage == proto_job_stages(job) - 1 && place.part == 0;
    message->loss = answers ? message->loss : 0;
    message->tokens = answers ? message->tokens : 0;
    message->forward_ns = 300000;
    message->backward_ns = 600000;
    message->stage_span_ns = 950000;
    message->tensor_ns = proto_job_tensor(job) > 1 ? 150000 : 0;
    message->held = 1;
}

static void step(fake_rank *fake)
{
    Ringfence__Control__Step message = RINGFENCE__CONTROL__STEP__INIT;
    const char *lines = getenv("FAKE_LINES");
    message.step = fake->step;
    message.loss = 6.25 / (double)(fake->step + 1);
    if (fake->diverges) {
        message.loss = 6.25 * (double)(fake->step + 1) * (double)(fake->step + 1);
    }
    message.loss_global = message.loss;
    message.tokens = 1024;
    message.compute_ns = 900000;
    if (proto_mode_get(fake->identity.job.job.mode)->pipelined) {
        report_stage(fake, &message);
    }
    message.allreduce_ns = 100000;
    message.step_ns = 1000000;
    if (getenv("FAKE_SLOW_ALONE") != NULL && fake->identity.world_size == 1) {
        message.step_ns *= 100;
    }
    proto_client_report(fake->client, &message.base);
    for (int i = 0; lines != NULL && strcmp(lines, "much") == 0 && i < MUCH_LINES; i++) {
        (void)printf("%0*d\n", MUCH_LINE_BYTES, i);
    }
    if (lines != NULL && strcmp(lines, "same") == 0) {
        (void)printf("step %" PRIu64 "\n", fake->step);
        (void)fflush(stdout);
    } else if (lines != NULL) {
        (void)printf("step %" PRIu64 " of %d\n", fake->step, fake->identity.rank);
        (void)fflush(stdout);
    }
}

static void finish(fake_rank *fake)
{
    base_error error = {0};
    uint8_t digest[PROTO_DIGEST_BYTES] = {7};
    Ringfence__Control__Finished message = RINGFENCE__CONTROL__FINISHED__INIT;
    message.params_sha256.data = digest;
    message.params_sha256.len = sizeof digest;
    message.steps_done = fake->step;
    message.byte_equal = true;
    if (fake->identity.job.infer.eval) {
        message.eval_total = 500;
        message.eval_correct = 456;
    }
    if (proto_client_finish(fake->client, &message, &error) != BASE_OK) {
        fail(fake, &error);
    }
}

static void generate(fake_rank *fake)
{
    for (uint64_t i = 2; i > 0; i--) { /* out of order */
        proto_client_output(fake->client, i - 1, "he went to school");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--check") == 0) {
        return 0; /* it would take any job */
    }
    base_error error = {0};
    fake_rank fake = {.what = getenv("FAKE_WHAT"),
                      .rank = env_long("FAKE_RANK", -1),
                      .at = env_long("FAKE_AT", -1),
                      .build = base_version_build()};
    base_log_init("");
    at_point(&fake, POINT_STARTED);
    if (proto_client_open(&fake.identity, &fake.client, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    at_point(&fake, POINT_OPENED);
    if (proto_client_join(fake.client, fake.build, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        leave(&fake, BASE_EXIT_ERROR);
    }
    at_point(&fake, POINT_JOINED);
    exchange(&fake);
    at_point(&fake, POINT_EXCHANGED);
    const bool training = proto_mode_get(fake.identity.job.job.mode)->trains;
    if (training) {
        ready(&fake);
        at_point(&fake, POINT_READY);
        exchange(&fake); /* as the trainer does: nothing before all are ready */
        const long steps = (long)fake.identity.job.train.steps;
        for (long i = 0; i < steps; i++) {
            step(&fake);
            fake.step++;
            at_point(&fake, POINT_STEPS + i);
            exchange(&fake);
            /* all stop at the same step: one rank is asked to, and all agree */
            int32_t stops[RANKS_SEEN_MAX] = {0};
            const int32_t stop = proto_client_stop_requested(fake.client) ? 1 : 0;
            if (proto_client_exchange(fake.client, &stop, stops, sizeof stop, BASE_NO_DEADLINE,
                                      &error) != BASE_OK) {
                fail(&fake, &error);
            }
            if (stops[0] != 0) {
                break;
            }
        }
    } else {
        generate(&fake);
    }
    finish(&fake);
    at_point(&fake, POINT_FINISHED);
    leave(&fake, BASE_EXIT_DONE);
}
