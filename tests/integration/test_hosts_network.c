/* One job on several hosts whose names, interfaces or clocks are awkward. Needs root for its
 * hosts. */
#include <arpa/inet.h>
#include <glob.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "several.h"

static void write_file(const char *path, const char *text)
{
    base_error error;
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
}

/* Each side says which name it does not know: the head at once, the agent when it has tried for as
 * long as it may. */
static void a_name_that_nobody_knows_is_named(void **state)
{
    (void)state;
    several_make_key("unknown");
    const several job = {"tcp://nowhere.invalid:29400", "2", NULL, {"--ranks", "2", NULL}};
    several_start_head(&job, "unknown");
    several_start(1, &job, FLAGS("--join-timeout", "1"));
    several_expect(0, 1);
    several_assert_says(0, "error: --rendezvous: cannot resolve nowhere.invalid: ");
    several_expect(1, 1);
    several_assert_says(1, "error: no head at tcp://nowhere.invalid:29400 within 1 s: cannot "
                           "resolve nowhere.invalid: ");
    test_program_assert_no_children();
}

/* The head may listen so. */
static void an_address_of_each_host_itself_is_named(void **state)
{
    (void)state;
    several_make_key("any");
    const several job = {"tcp://0.0.0.0:29400", "2", NULL, {NULL}};
    several_start(1, &job, FLAGS("--join-timeout", "1"));
    several_expect(1, 1);
    several_assert_says(1, "no connection: 0.0.0.0 and [::] are no address to reach a head by; "
                           "name the head's host");
}

/* The agent looks the name up anew each time. */
static void a_name_may_become_known_later(void **state)
{
    (void)state;
    char file[SEVERAL_PATH_BYTES];
    (void)snprintf(file, sizeof file, "%s", test_shared_path("later"));
    write_file(file, "127.0.0.1 localhost\n");
    several_make_key("later");
    const several named = {"tcp://node0.invalid:29400", "2", file, {NULL}};
    several_start(1, &named, several_no_flags);
    several_wait_says(1, "waiting for the head at tcp://node0.invalid:29400: cannot resolve");
    const several job = SEVERAL("2", "--ranks", "2");
    several_start_head(&job, "named-later");
    FILE *hosts = fopen(file, "ae"); /* not a new file: it is mounted */
    assert_non_null(hosts);
    assert_true(fputs("10.77.0.1 node0.invalid\n", hosts) >= 0);
    assert_int_equal(fclose(hosts), 0);
    several_expect_all(2, 0);
    test_program_assert_no_children();
}

/* A socket on host 0 that takes a name server's questions, and answers none. */
static int listen_silently(void)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = inet_addr("10.77.0.1")};
    test_hosts_enter(0);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    test_hosts_enter(-1);
    return fd;
}

/* Head and agent hear their users while no name server answers. */
static void a_silent_name_server_holds_up_nobody(void **state)
{
    (void)state;
    char file[SEVERAL_PATH_BYTES];
    static char script[SEVERAL_PATH_BYTES];
    char text[3 * SEVERAL_PATH_BYTES];
    char question[512];
    const int server = listen_silently();
    (void)snprintf(file, sizeof file, "%s", test_shared_path("servers"));
    (void)snprintf(script, sizeof script, "%s", test_shared_path("with-servers"));
    write_file(file, "nameserver 10.77.0.1\noptions timeout:30 attempts:1\n");
    (void)snprintf(
        text, sizeof text,
        "#!/bin/sh\nexec unshare -m sh -c 'mount --bind %s /etc/resolv.conf && exec \"$@\"' "
        "sh %s \"$@\"\n",
        file, LAUNCHER_PATH);
    write_file(script, text);
    assert_int_equal(chmod(script, 0700), 0);
    several_make_key("silent");
    several_launchers[1] = script;
    const several job = {"tcp://node0.silent:29400", "2", NULL, {NULL}};
    several_start(1, &job, several_no_flags);
    several_launchers[1] = NULL;
    assert_true(recv(server, question, sizeof question, 0) > 0); /* it has asked */
    several_wait_says(1, "cannot resolve node0.silent: no name server has answered yet");
    assert_int_equal(kill(several_runs[1].program.pid, SIGINT), 0);
    several_expect(1, 128 + SIGINT); /* else 1, after the timeout */
    test_program_assert_no_children();

    while (recv(server, question, sizeof question, MSG_DONTWAIT) > 0) { /* the agent's */
    }
    several_launchers[0] = script;
    several_start_head(&job, "silent");
    several_launchers[0] = NULL;
    assert_true(recv(server, question, sizeof question, 0) > 0);
    assert_int_equal(kill(several_runs[0].program.pid, SIGINT), 0);
    several_expect(0, 128 + SIGINT);
    several_assert_says(0, "--rendezvous: ended by SIGINT before all launchers had come");
    test_program_assert_no_children();
    (void)close(server);
}

/* Whether a host has received so many bytes over IPv6. */
static bool received_over_ipv6(int host, int bytes)
{
    char command[256];
    (void)snprintf(command, sizeof command,
                   "while read -r name value; do [ \"$name\" != Ip6InOctets ] || "
                   "[ \"$value\" -gt %d ] || exit 1; done </proc/self/net/snmp6",
                   bytes);
    return test_hosts_run(host, command);
}

/* As with docker0: both hosts have an interface of the same address, which leads nowhere. */
static void the_right_one_of_many_interfaces_is_taken(void **state)
{
    (void)state;
    several_make_key("interfaces");
    for (int host = 0; host < 2; host++) {
        assert_true(test_hosts_run(host, "ip link add docker0 type veth peer name docker1 && "
                                         "ip addr add 172.17.0.1/16 dev docker0 && "
                                         "ip link set docker0 up && ip link set docker1 up"));
    }
    const several job = SEVERAL("2", "--ranks", "2");
    several_start_hosts("routed", &job);
    several_expect_all(2, 0);
    assert_false(received_over_ipv6(1, 50000));

    const several other = SEVERAL("2", "--ranks", "2", "--interface", "fd77:1::/64");
    several_start_hosts("chosen", &other);
    several_expect_all(2, 0);
    assert_true(received_over_ipv6(1, 50000));

    const several wrong = SEVERAL("2", "--ranks", "2", "--interface", "docker0");
    several_start_hosts("wrong", &wrong);
    several_expect_all(2, 1);
    several_assert_says(0, "at 172.17.0.1 port ");
    several_assert_says(0, "is that the right interface? it is chosen by");
    test_program_assert_no_children();
}

/* Whether an interface of a host has received so many bytes. */
static bool received_at(int host, const char *interface, int bytes)
{
    char command[256];
    (void)snprintf(command, sizeof command,
                   "while read -r name value rest; do [ \"$name\" != %s: ] || "
                   "[ \"$value\" -gt %d ] || exit 1; done </proc/self/net/dev",
                   interface, bytes);
    return test_hosts_run(host, command);
}

/* A second network joins the hosts, and its interface has another name on each. */
static void each_host_names_an_interface_of_its_own(void **state)
{
    (void)state;
    enum { JOBS = 3, JOB_BYTES = 50000 };
    static const char *const interfaces[JOBS][2] = {
        {"b0", "b1"},
        {"10.92.0.1", "10.92.0.2"},
        {"10.92.0.0/30", NULL}, /* the agent takes the head's */
    };
    several_make_key("own-interface");
    test_hosts_join_again(0, "b0", 1, "b1");
    assert_true(test_hosts_run(0, "ip addr add 10.92.0.1/30 dev b0 && ip link set b0 up"));
    assert_true(test_hosts_run(1, "ip addr add 10.92.0.2/30 dev b1 && ip link set b1 up"));
    for (int i = 0; i < JOBS; i++) {
        const several job =
            SEVERAL("2", "--ranks", "2", "--interface", interfaces[i][0], "--overwrite");
        several_start_head(&job, "own-interface");
        several_start(1, &job,
                      interfaces[i][1] != NULL ? FLAGS("--interface", interfaces[i][1])
                                               : several_no_flags);
        several_expect_all(2, 0);
        assert_true(received_at(1, "b1", (i + 1) * JOB_BYTES));
    }
    test_program_assert_no_children();
}

/* The launchers hear of each other, and the ranks do not: none may be said to be late. */
static void a_cut_between_ranks_is_no_ranks_fault(void **state)
{
    (void)state;
    several_make_key("cut");
    test_hosts_join_again(0, "c0", 1, "c1");
    assert_true(test_hosts_run(0, "ip addr add 10.93.0.1/30 dev c0 && ip link set c0 up"));
    assert_true(test_hosts_run(1, "ip addr add 10.93.0.2/30 dev c1 && ip link set c1 up"));
    const several job = SEVERAL("2", "--ranks", "2", "--interface", "10.93.0.0/30", "--steps",
                                "1000000", "--timeout", "3");
    several_start_hosts("cut", &job);
    several_wait_says(0, "\nstep 1/");
    assert_true(test_hosts_run(1, "ip link set c1 down"));
    several_expect_all(2, 1);
    several_assert_says(0, "; not heard of: rank ");
    several_assert_says(0, ", or its host cannot be reached: look at the network between host-");
    test_program_assert_no_children();
}

/* Of three hosts two cannot reach each other. The first is connected to both, and finds that one has left:
 * that is not the cause. */
static void a_firewall_between_two_hosts_is_named(void **state)
{
    (void)state;
    several_make_key("wall");
    assert_true(test_hosts_run(2, "ip route replace unreachable 10.77.0.2/32"));
    const several job = SEVERAL("3", "--ranks", "3", "--transport", "tcp", "--host-timeout", "3");
    several_start_hosts("wall", &job);
    for (int node = 0; node < 3; node++) {
        several_expect(node, 1);
        several_assert_says(node, "error: rank 2 (pid ");
        several_assert_says(node, "cannot connect to rank 1 (host host-1, pid ");
    }
    test_program_assert_no_children();
}

/* The same, and long before the ranks' timeout: each side has sent what nobody acknowledges. */
static void a_silent_host_is_named_soon(void **state)
{
    (void)state;
    several_make_key("silence");
    test_hosts_join_again(0, "s0", 1, "s1");
    assert_true(test_hosts_run(0, "ip addr add 10.94.0.1/30 dev s0 && ip link set s0 up"));
    assert_true(test_hosts_run(1, "ip addr add 10.94.0.2/30 dev s1 && ip link set s1 up"));
    const several job = SEVERAL("2", "--ranks", "2", "--interface", "10.94.0.0/30", "--steps",
                                "1000000", "--timeout", "600", "--host-timeout", "3");
    several_start_hosts("silence", &job);
    several_wait_says(0, "\nstep 1/");
    assert_true(test_hosts_run(1, "ip link set s1 down"));
    several_expect_all(2, 1);
    several_assert_says(0, " is lost: its host has not answered for ");
    several_assert_says(0, " s: look at the network between host-");
    test_program_assert_no_children();
}

/* It lets launchers pass, and no ranks. These get no answer, and say nothing. */
static void a_firewall_before_the_ranks_port_is_named(void **state)
{
    (void)state;
    if (!test_hosts_run(0, "nft add table inet wall && nft \"add chain inet wall in { type filter "
                           "hook input priority 0; }\" && nft add rule inet wall in iifname to1 "
                           "tcp dport != 29400 ct state new drop")) {
        (void)fprintf(stderr, "skipped: needs nft\n");
        skip();
    }
    several_make_key("port");
    const several job = SEVERAL("2", "--ranks", "2", "--join-timeout", "5");
    several_start_hosts("port", &job);
    several_expect_all(2, 1);
    several_assert_says(0, "1 of 2 ranks have not joined within 5 s: rank 1 (pid ");
    several_assert_says(0, "; does a firewall let that host reach port ");
    assert_true(test_hosts_run(0, "nft delete table inet wall"));
    test_program_assert_no_children();
}

/* Adds the connections of this thread's host to another one; and those of them of which neither end is at a
 * port that a firewall would let pass. */
static void count_connections(const char *table_path, int *all, int *outside)
{
    char line[512];
    FILE *table = fopen(table_path, "re");
    assert_non_null(table);
    while (fgets(line, sizeof line, table) != NULL) {
        char addresses[2][33];
        unsigned ports[2];
        unsigned state = 0;
        if (sscanf(line, " %*d: %32[0-9A-F]:%X %32[0-9A-F]:%X %X", /* NOLINT(cert-err34-c) */
                   addresses[0], &ports[0], addresses[1], &ports[1], &state) != 5 ||
            state != 1 || strcmp(addresses[0], addresses[1]) == 0) {
            continue;
        }
        bool allowed = false;
        for (int end = 0; end < 2; end++) {
            allowed =
                allowed || ports[end] == 29400 || (ports[end] >= 29500 && ports[end] <= 29507);
        }
        *outside += allowed ? 0 : 1;
        (*all)++;
    }
    (void)fclose(table);
}

/* Of two hosts with two ranks each: every connection is to a port of --listen-ports, or the rendezvous. */
static void ranks_keep_to_the_ports(void **state)
{
    static const char *const transports[] = {"tcp", "zmq"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        int all = 0;
        int outside = 0;
        several_make_key(transports[i]);
        const several job = SEVERAL("2", "--ranks", "4", "--transport", transports[i],
                                    "--listen-ports", "29500-29507", "--steps", "1000000");
        several_start_hosts(transports[i], &job);
        several_wait_says(0, "\nstep 1/");
        test_hosts_enter(0);
        count_connections("/proc/thread-self/net/tcp", &all, &outside);
        count_connections("/proc/thread-self/net/tcp6", &all, &outside);
        test_hosts_enter(-1);
        assert_int_equal(outside, 0);
        assert_int_equal(
            all, 1 + 2 + 4); /* the launchers', of ranks 2 and 3 to the head, between ranks */
        assert_int_equal(kill(several_runs[0].program.pid, SIGINT), 0);
        several_expect_all(2, 128 + SIGINT);
    }
    test_program_assert_no_children();
}

static void expect_too_few(const char *name, const several *job, const char *const *agents_flags,
                           const char *says)
{
    several_make_key(name);
    several_start_head(job, name);
    several_start(1, job, agents_flags);
    several_expect_all(2, 1);
    several_assert_says(0, says);
    test_program_assert_no_children();
}

/* Where they are too few, the line says so. An agent's own ones count on its host. */
static void too_few_ports_are_named(void **state)
{
    (void)state;
    const several one =
        SEVERAL("2", "--ranks", "2", "--transport", "tcp", "--listen-ports", "29500-29500");
    expect_too_few("few", &one, several_no_flags, "all ports from 29500 to 29500 of ");
    const several two =
        SEVERAL("2", "--ranks", "4", "--transport", "tcp", "--listen-ports", "29500-29509");
    expect_too_few("own-few", &two, FLAGS("--listen-ports", "29600-29600"),
                   "all ports from 29600 to 29600 of ");
}

/* Rank 0 of a program listens at the last one. */
static void a_program_meets_at_the_last_port(void **state)
{
    (void)state;
    static const char script[] = "echo port $MASTER_PORT && exec \"$0\"";
    const char *const flags[] = {"--listen-ports", "29500-29507",       "--", "/bin/sh", "-c",
                                 script,           MEET_AT_MASTER_PATH, NULL};
    several_make_key("master");
    const several job = SEVERAL("2", NULL);
    several_start(0, &job, flags);
    several_start(1, &job, flags);
    several_expect_all(2, 0);
    assert_has(several_runs[0].program.text[TEST_STDOUT], "port 29507\n");
    test_program_assert_no_children();
}

/* The head listens on the first address of a name, and says which it leaves out. */
static void a_name_of_both_kinds_is_explained(void **state)
{
    (void)state;
    char file[SEVERAL_PATH_BYTES];
    (void)snprintf(file, sizeof file, "%s", test_shared_path("hosts-both"));
    write_file(file, "fd77:1::1 host-0\n10.77.0.1 host-0\n10.77.0.2 host-1\n");
    several_make_key("both");
    const several job = {"tcp://host-0:29400", "2", file, {"--ranks", "2", NULL}};
    several_start_head(&job, "both");
    several_wait_says(0, "waiting at tcp://[fd77:1::1]:29400 for 1 more host, not at 10.77.0.1\n");
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 0);
}

/* libfaketime's file, for LD_PRELOAD. */
static bool find_faketime(char *variable, size_t size_bytes)
{
    glob_t found;
    const bool is_there = glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) == 0;
    if (is_there) {
        (void)snprintf(variable, size_bytes, "LD_PRELOAD=%s", found.gl_pathv[0]);
    }
    globfree(&found);
    return is_there;
}

static void clocks_may_differ_by_five_minutes(void **state)
{
    (void)state;
    static test_program clock;
    static training_run alone;
    char preload[SEVERAL_PATH_BYTES];
    if (!find_faketime(preload, sizeof preload)) {
        (void)fprintf(stderr, "skipped: needs libfaketime\n");
        skip();
    }
    const char *agent[] = {
        "/usr/bin/env",
        preload,
        "FAKETIME=+5m",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
        "FAKETIME_FORCE_MONOTONIC_FIX=0", /* of waits: it takes them for the clock of day */
        LAUNCHER_PATH,
        "--nodes",
        "2",
        "--node-rank",
        "1",
        "--rendezvous",
        several_address,
        "--job-key",
        several_key,
        "--no-bind",
        NULL};
    const char *const date[] = {agent[0], agent[1], agent[2], agent[3], "date", "+at %s", NULL};
    test_program_start(&clock, date, NULL);
    const time_t before = time(NULL);
    assert_int_equal(test_program_wait(&clock), 0);
    assert_true(test_program_number_after(&clock, TEST_STDOUT, "at ") >= before + 290);

    several_make_key("clocks");
    const several job = SEVERAL("2", "--ranks", "2");
    several_start_head(&job, "clocks");
    test_hosts_start(&several_runs[1].program, 1, NULL, agent);
    several_expect_all(2, 0);
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "no heartbeat"));
    training_expect(&alone, &test_shared_directory, "clocks-alone", 0, FLAGS("--ranks", "2"));
    training_assert_same_file(&alone, "state-rank-1.safetensors", &several_runs[0],
                              "state-rank-1.safetensors");
    test_program_assert_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_nobody_knows_is_named),
        cmocka_unit_test(an_address_of_each_host_itself_is_named),
        cmocka_unit_test(a_name_may_become_known_later),
        cmocka_unit_test(a_silent_name_server_holds_up_nobody),
        cmocka_unit_test(the_right_one_of_many_interfaces_is_taken),
        cmocka_unit_test(each_host_names_an_interface_of_its_own),
        cmocka_unit_test(a_cut_between_ranks_is_no_ranks_fault),
        cmocka_unit_test(a_silent_host_is_named_soon),
        cmocka_unit_test(a_firewall_between_two_hosts_is_named),
        cmocka_unit_test(a_firewall_before_the_ranks_port_is_named),
        cmocka_unit_test(ranks_keep_to_the_ports),
        cmocka_unit_test(too_few_ports_are_named),
        cmocka_unit_test(a_program_meets_at_the_last_port),
        cmocka_unit_test(a_name_of_both_kinds_is_explained),
        cmocka_unit_test(clocks_may_differ_by_five_minutes),
    };
    const int skipped = test_hosts_skip(3);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
