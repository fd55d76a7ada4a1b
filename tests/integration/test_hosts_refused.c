/* What a head does with launchers that have its key but are not of its job, or misbehave: this test
 * speaks for them. And with strangers at both of its ports. Needs root for its hosts. */
#include <arpa/inet.h>
#include <control.pb-c.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/splitmix.h"
#include "fake_job.h"
#include "proto/body.h"
#include "proto/bus.h"
#include "proto/job_key.h"
#include "several.h"

enum { WAIT_S = 30, PORT = 29400, HEADS = 12, MESSAGES = 60, TEXT_BYTES = 512 };
enum { PACKED_BYTES = 2 * PROTO_PRINTED_BYTES_MAX };

typedef Ringfence__Control__Envelope envelope_type;

static proto_job_key key;
static char build[TEXT_BYTES]; /* the head's */
static test_program heads[HEADS];

/* ---- heads, and agents that are this test ---- */

static const char *open_files = "--nofile=1024"; /* of heads: prlimit's */

/* Starts a head of two nodes. `variable` may let its own rank do something once it has started, as
 * in fake_rank.c. */
static void launch_head(int index, int port, const char *variable)
{
    char rendezvous[64];
    char out[TEXT_BYTES];
    (void)snprintf(rendezvous, sizeof rendezvous, "tcp://10.77.0.1:%d", port);
    (void)snprintf(out, sizeof out, "%s/%d", test_shared_directory.path, index);
    test_hosts_start(&heads[index], 0, NULL,
                     FLAGS("/usr/bin/prlimit", open_files, "/usr/bin/env", variable, "FAKE_RANK=0",
                           "FAKE_AT=0", FAKE_LAUNCHER_PATH, "--nodes", "2", "--rendezvous",
                           rendezvous, "--job-key", several_key, "--no-bind", "--overwrite",
                           "--steps", "2", "--out", out, "--data", test_shared_path("data.jsonl"),
                           "--tokenizer", test_shared_path("tokenizer.json")));
}

static void start_head(int index, const char *variable)
{
    launch_head(index, PORT + index, variable);
    test_program_wait_text(&heads[index], TEST_STDERR, "waiting at tcp://10.77.0.1:");
}

/* The right agent of head 0. */
static void start_agent(const char *const *flags)
{
    const several job = SEVERAL("2", NULL);
    several_launchers[1] = FAKE_LAUNCHER_PATH;
    several_start(1, &job, flags);
    several_launchers[1] = NULL;
}

static void expect_head(int index, int exit_code, const char *says)
{
    const int got = test_program_wait(&heads[index]);
    if (got != exit_code || strstr(heads[index].text[TEST_STDERR], says) == NULL) {
        fail_msg("the head ended with %d (%d wanted), '%s' wanted in:\n%s", got, exit_code, says,
                 heads[index].text[TEST_STDERR]);
    }
}

static proto_bus *connect_to(int index)
{
    base_error error;
    proto_keypair own;
    proto_keypair head;
    proto_bus *bus = NULL;
    char endpoint[PROTO_ENDPOINT_BYTES];
    (void)snprintf(endpoint, sizeof endpoint, "tcp://10.77.0.1:%d", PORT + index);
    proto_job_key_node(&key, 1, &own);
    proto_job_key_node(&key, 0, &head);
    const proto_bus_agent_options options = {
        .endpoint = endpoint, .keys = &own, .head_public_key = head.public_key, .nodes = 2};
    test_hosts_enter(1);
    assert_ok(proto_bus_connect_head(&options, &bus, &error), &error);
    test_hosts_enter(-1);
    return bus;
}

/* The next message of the head that is no heartbeat. */
static const envelope_type *next_message(proto_bus *bus)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    for (;;) {
        base_error error;
        int node = PROTO_NO_RANK;
        struct pollfd polled[PROTO_BUS_FDS];
        envelope_type *got = NULL;
        assert_ok(proto_bus_recv(bus, &node, &got, &error), &error);
        if (got == NULL) {
            proto_bus_polls(bus, polled);
            (void)poll(polled, 1, base_deadline_poll_ms(deadline_ns, 100));
            assert_true(base_now_ns() < deadline_ns);
        } else if (got->body_case != RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT) {
            return got;
        }
    }
}

static void send_packed(proto_bus *bus, const envelope_type *envelope)
{
    static uint8_t packed[PACKED_BYTES];
    base_error error;
    assert_true(ringfence__control__envelope__get_packed_size(envelope) <= sizeof packed);
    const size_t bytes = ringfence__control__envelope__pack(envelope, packed);
    assert_ok(proto_bus_send_packed(bus, PROTO_NO_RANK, packed, bytes, &error), &error);
}

static void fill_enroll(Ringfence__Control__Enroll *enroll)
{
    static char hostname[] = "hostile";
    static char boot_id[] = "boot";
    static char address[] = "10.77.0.1";
    *enroll = (Ringfence__Control__Enroll)RINGFENCE__CONTROL__ENROLL__INIT;
    enroll->node = 1;
    enroll->nodes = 2;
    enroll->run_id = key.run_id;
    enroll->build = build;
    enroll->hostname = hostname;
    enroll->boot_id = boot_id;
    enroll->pid = 1;
    enroll->cpus = 1;
    enroll->head_address = address;
}

static void send_enroll(proto_bus *bus, Ringfence__Control__Enroll *enroll, uint32_t version)
{
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope.version = version;
    proto_set_body(&envelope.base, &enroll->base);
    send_packed(bus, &envelope);
}

/* Enrols so that the head refuses it, for a reason that begins so. Returns the rest of it. */
static const char *refused(Ringfence__Control__Enroll *enroll, uint32_t version, const char *reason)
{
    static char rest[TEXT_BYTES];
    proto_bus *bus = connect_to(0);
    send_enroll(bus, enroll, version);
    const envelope_type *got = next_message(bus);
    assert_int_equal(got->body_case, RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE);
    const char *at = strstr(got->refuse->reason, reason);
    if (at == NULL) {
        fail_msg("refused, but not with '%s': %s", reason, got->refuse->reason);
    }
    (void)snprintf(rest, sizeof rest, "%s", at + strlen(reason));
    test_program_wait_text(&heads[0], TEST_STDERR, reason);
    proto_bus_close(bus);
    return rest;
}

/* Enrols, and gets the job. */
static proto_bus *enrolled(int index)
{
    Ringfence__Control__Enroll enroll;
    proto_bus *bus = connect_to(index);
    fill_enroll(&enroll);
    send_enroll(bus, &enroll, PROTO_CONTROL_VERSION);
    assert_int_equal(next_message(bus)->body_case, RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN);
    return bus;
}

/* Enrols, and takes the job. */
static proto_bus *begin(int index)
{
    Ringfence__Control__Prepared prepared = RINGFENCE__CONTROL__PREPARED__INIT;
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    proto_bus *bus = enrolled(index);
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &prepared.base);
    send_packed(bus, &envelope);
    assert_int_equal(next_message(bus)->body_case, RINGFENCE__CONTROL__ENVELOPE__BODY_BEGIN);
    return bus;
}

/* ---- the tests ---- */

/* The head says why, to both, and goes on waiting for the right one. */
static void launchers_of_other_jobs_are_refused(void **state)
{
    (void)state;
    Ringfence__Control__Enroll enroll;
    char other_build[] = "elsewhere";
    char other_run[] = "0123456789abcdef";
    start_head(0, "FAKE_SAY=1");
    fill_enroll(&enroll);
    enroll.build = other_build;
    (void)snprintf(
        build, sizeof build, "%s",
        refused(&enroll, PROTO_CONTROL_VERSION, "it is of build elsewhere, the head of "));
    fill_enroll(&enroll);
    enroll.nodes = 3;
    (void)refused(&enroll, PROTO_CONTROL_VERSION, "it has --nodes 3, the head 2");
    fill_enroll(&enroll);
    enroll.ranks = 2;
    (void)refused(&enroll, PROTO_CONTROL_VERSION, "it has --ranks-per-node 2, the head 1");
    fill_enroll(&enroll);
    enroll.run_id = other_run;
    (void)refused(&enroll, PROTO_CONTROL_VERSION,
                  "it presents itself as node 1 of run 0123456789abcdef");
    fill_enroll(&enroll);
    (void)refused(
        &enroll, PROTO_CONTROL_VERSION + 1,
        "the agent speaks version 3 of the protocol, and the head version 2: update the head");
    launch_head(1, PORT, "FAKE_SAY=1");
    expect_head(1, 1, "another program has that port: cannot listen on tcp://10.77");

    start_agent(several_no_flags);
    several_expect(1, 0);
    expect_head(0, 0, "has joined");
    test_program_assert_no_children();
}

/* A message of one kind, with random numbers, most of them such as may come. */
static void fill_random(envelope_type *envelope, uint64_t *random)
{
    static Ringfence__Control__Started started = RINGFENCE__CONTROL__STARTED__INIT;
    static Ringfence__Control__Printed printed = RINGFENCE__CONTROL__PRINTED__INIT;
    static Ringfence__Control__Halted halted = RINGFENCE__CONTROL__HALTED__INIT;
    static Ringfence__Control__Exited exited = RINGFENCE__CONTROL__EXITED__INIT;
    static Ringfence__Control__Asked asked = RINGFENCE__CONTROL__ASKED__INIT;
    static Ringfence__Control__Enroll enroll;
    static Ringfence__Control__Prepared prepared = RINGFENCE__CONTROL__PREPARED__INIT;
    static Ringfence__Control__Heartbeat heartbeat = RINGFENCE__CONTROL__HEARTBEAT__INIT;
    static uint8_t data[] = "text\nof a line";
    const uint64_t kind = base_splitmix_next(random) % 16;
    const uint32_t rank = base_splitmix_next(random) % 8 != 0 ? 1 : (uint32_t)*random % 4;
    const uint32_t number = (uint32_t)(base_splitmix_next(random) % 20);
    *envelope = (envelope_type)RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope->version = PROTO_CONTROL_VERSION;
    if (kind == 0) {
        started.rank = rank;
        started.pid = 1 + number;
        proto_set_body(&envelope->base, &started.base);
    } else if (kind < 8) {
        printed.rank = rank;
        printed.is_stderr = number % 2 == 0;
        printed.data = (ProtobufCBinaryData){number % sizeof data, data};
        printed.last = number == 0;
        proto_set_body(&envelope->base, &printed.base);
    } else if (kind < 11) {
        halted.rank = rank;
        halted.signal = number;
        proto_set_body(&envelope->base, &halted.base);
    } else if (kind == 11) {
        exited.rank = rank;
        exited.by_signal = number % 2 == 0;
        exited.status = number;
        proto_set_body(&envelope->base, &exited.base);
    } else if (kind == 12 && number == 0) {
        asked.signal = SIGINT;
        proto_set_body(&envelope->base, &asked.base);
    } else if (kind == 13 && number < 4) {
        fill_enroll(&enroll);
        proto_set_body(&envelope->base, &enroll.base);
    } else if (kind == 14 && number < 4) {
        proto_set_body(&envelope->base, &prepared.base);
    } else {
        proto_set_body(&envelope->base, &heartbeat.base);
    }
}

/* Sends messages of an agent, one in 16 with a wrong bit. */
static void send_random(proto_bus *bus, uint64_t *random)
{
    for (int i = 0; i < MESSAGES; i++) {
        uint8_t packed[PACKED_BYTES];
        base_error ignored;
        envelope_type envelope;
        fill_random(&envelope, random);
        const size_t bytes = ringfence__control__envelope__pack(&envelope, packed);
        if (base_splitmix_next(random) % 16 == 0) {
            packed[base_splitmix_next(random) % bytes] ^= (uint8_t)(1U << (*random % 8));
        }
        (void)!proto_bus_send_packed(bus, PROTO_NO_RANK, packed, bytes, &ignored);
    }
}

/* Whatever it sends, the head ends with one line that names the host, or its rank. */
static void an_agent_may_send_anything(void **state)
{
    (void)state;
    proto_bus *agents[HEADS];
    assert_true(build[0] != '\0'); /* by the test before */
    for (int i = 0; i < HEADS; i++) {
        start_head(i, "FAKE_WHAT=hang");
    }
    for (int i = 0; i < HEADS; i++) {
        uint64_t random = (uint64_t)i;
        agents[i] = begin(i);
        send_random(agents[i], &random);
    }
    for (int i = 0; i < HEADS; i++) {
        proto_bus_close(agents[i]);
        const int exit_code = test_program_wait(&heads[i]);
        const char *says = heads[i].text[TEST_STDERR];
        const bool named = strstr(says, "error: host hostile (node 1) is lost: ") != NULL ||
                           strstr(says, "error: rank 1 (pid ") != NULL ||
                           strstr(says, "error: ended at once by ") != NULL;
        if (exit_code == 0 || !named || test_count(says, "launcher: error: ") != 1) {
            fail_msg("seed %d: the head ended with %d:\n%s", i, exit_code, says);
        }
    }
    test_program_assert_no_children();
}

/* An agent asks for parts of a file, and has gone when the head comes to send them. Another one may come. */
static void an_agent_may_go_while_it_fetches(void **state)
{
    (void)state;
    Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    start_head(0, "FAKE_SAY=1");
    proto_bus *bus = enrolled(0);
    assert_int_equal(kill(heads[0].pid, SIGSTOP), 0);
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &fetch.base);
    for (int i = 0; i < MESSAGES; i++) {
        send_packed(bus, &envelope);
    }
    proto_bus_close(bus);
    assert_int_equal(kill(heads[0].pid, SIGCONT), 0);
    test_program_wait_text(&heads[0], TEST_STDERR, "(node 1) has left before the job began: ");
    start_agent(several_no_flags);
    several_expect(1, 0);
    expect_head(0, 0, "has joined");
    test_program_assert_no_children();
}

/* An agent that sends output without end ends the job: the head does not keep it all. */
static void an_agent_may_not_flood_the_head(void **state)
{
    (void)state;
    static uint8_t data[PROTO_PRINTED_BYTES_MAX];
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Printed printed = RINGFENCE__CONTROL__PRINTED__INIT;
    const int most = 1 + 2 * PROTO_PRINTED_LAST_MESSAGES_MAX +
                     PROTO_PRINTED_AHEAD_BYTES / PROTO_PRINTED_BYTES_MAX;
    memset(data, 'x', sizeof data);
    assert_true(build[0] != '\0'); /* by a test before */
    start_head(0, "FAKE_WHAT=hang");
    heads[0].unread = true; /* so it gives no more room than it has */
    proto_bus *bus = begin(0);
    printed.rank = 1;
    printed.data = (ProtobufCBinaryData){sizeof data, data};
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, &printed.base);
    for (int i = 0; i < 2 * most; i++) {
        send_packed(bus, &envelope);
    }
    test_program_wait_text(&heads[0], TEST_STDERR, "its output is not read");
    heads[0].unread = false;
    expect_head(
        0, 1,
        "error: host hostile (node 1) is lost: its launcher has sent more output than it was "
        "given room for");
    proto_bus_close(bus);
    test_program_assert_no_children();
}

/* ---- strangers ---- */

static int connect_stranger(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr = {inet_addr("10.77.0.1")}, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void send_noise(uint16_t port, uint64_t *random)
{
    uint8_t noise[256];
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)base_splitmix_next(random);
    }
    if (*random % 2 == 0) { /* half of them greet as ZeroMQ does */
        static const uint8_t greeting[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'C', 'U'};
        memcpy(noise, greeting, sizeof greeting);
    }
    const int fd = connect_stranger(port);
    (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, noise, sizeof noise, 0) > 0) { /* until the head hangs up */
    }
    (void)close(fd);
}

/* Ports on which host 0 listens at 10.77.0.1. */
static int listening_ports(uint16_t *ports, int ports_max)
{
    char line[256];
    int count = 0;
    FILE *table = fopen("/proc/thread-self/net/tcp", "re");
    assert_non_null(table);
    while (fgets(line, sizeof line, table) != NULL && count < ports_max) {
        const char *at = strstr(line, ": 01004D0A:");
        if (at != NULL && strstr(line, ":0000 0A ") != NULL) {
            ports[count++] = (uint16_t)strtol(at + 11, NULL, 16);
        }
    }
    (void)fclose(table);
    return count;
}

/* At the port of the agents, and at that of the ranks. */
static void strangers_disturb_nobody(void **state)
{
    (void)state;
    uint16_t ports[4];
    uint64_t random = 18;
    start_head(0, "FAKE_WHAT=stop");
    start_agent(several_no_flags);
    test_program_wait_text(&heads[0], TEST_STDERR, "is stopped by SIGSTOP");
    test_hosts_enter(0);
    const int count = listening_ports(ports, 4);
    assert_int_equal(count, 2);
    for (int i = 0; i < count * 20; i++) {
        send_noise(ports[i % count], &random);
    }
    test_hosts_enter(-1);
    assert_int_equal(kill(several_only_child(heads[0].pid), SIGCONT), 0);
    several_expect(1, 0);
    expect_head(0, 0, "has joined");
    assert_int_equal(test_count(heads[0].text[TEST_STDERR], "warning: refused a connection"), 1);
    assert_int_equal(test_count(heads[0].text[TEST_STDERR], "warning: refused a launcher"), 1);
    test_program_assert_no_children();
}

/* More connections that say nothing than the head may have open files. The agent joins before their
 * handshakes time out. */
static void silent_strangers_keep_nobody_out(void **state)
{
    (void)state;
    enum { OPEN_FILES = 256, SILENT = OPEN_FILES + 44 };
    int silent[SILENT];
    open_files = "--nofile=256";
    start_head(0, "FAKE_SAY=1");
    open_files = "--nofile=1024";
    test_hosts_enter(0);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = connect_stranger(PORT);
    }
    test_hosts_enter(-1);
    start_agent(FLAGS("--join-timeout", "8"));
    several_expect(1, 0);
    expect_head(0, 0, "has joined");
    for (int i = 0; i < SILENT; i++) {
        (void)close(silent[i]);
    }
    test_program_assert_no_children();
}

static int setup(void **state)
{
    base_error error;
    (void)fake_job_setup(state);
    several_make_key("refused");
    assert_ok(proto_job_key_read(several_key, &key, &error), &error);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_of_other_jobs_are_refused),
        cmocka_unit_test(an_agent_may_send_anything),
        cmocka_unit_test(an_agent_may_go_while_it_fetches),
        cmocka_unit_test(an_agent_may_not_flood_the_head),
        cmocka_unit_test(strangers_disturb_nobody),
        cmocka_unit_test(silent_strangers_keep_nobody_out),
    };
    const int skipped = test_hosts_skip(2);
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, setup, fake_job_teardown);
}
