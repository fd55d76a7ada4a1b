/* Which host is sent away when attempts fail. Four nodes with a rank each, and no process. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "job/head_impl.h"
#include "support.h"

enum { NODES = 4, HOST_TIMEOUT_S = 15 };

static const launch_hosts_options hosts = {.host_timeout_ms = HOST_TIMEOUT_S * 1000};
static launch_job_options options;
static launch_job_result result;
static launch_session session;
static launch_rank ranks[NODES];
static launch_node nodes[NODES];
static launch_head head;
static proto_job job;

/* An attempt of all nodes, of which it needs two. */
static int begin(void **state)
{
    (void)state;
    head = (launch_head){.options = &hosts, .node_count = NODES, .nodes = nodes};
    job.train.save_every = 10;
    options = (launch_job_options){.min_hosts = 2, .tried_again = true};
    for (int node = 0; node < NODES; node++) {
        nodes[node] = (launch_node){.state = LAUNCH_NODE_BEGUN,
                                    .ranks = 1,
                                    .faults = nodes[node].faults,
                                    .cuts = nodes[node].cuts};
        (void)snprintf(nodes[node].hostname, sizeof nodes[node].hostname, "h%d", node);
        ranks[node] = (launch_rank){.node = node, .unreached = -1};
    }
    result = (launch_job_result){.ready = true, .steps_done = 5};
    session = (launch_session){.options = &options,
                               .result = &result,
                               .job = &job,
                               .ranks = ranks,
                               .world_size = NODES,
                               .head = &head};
    return 0;
}

static int begin_anew(void **state)
{
    memset(nodes, 0, sizeof nodes);
    return begin(state);
}

/* Who is sent away by this attempt's end; 0: nobody. */
static int judge(void)
{
    int away = 0;
    launch_head_judge(&session);
    for (int node = 1; node < NODES; node++) {
        if (nodes[node].sent_away) {
            assert_int_equal(away, 0);
            away = node;
        }
    }
    return away;
}

/* The attempt fails by a host's own failure. */
static int fail_at(void **state, int node)
{
    (void)begin(state);
    session.cause = (launch_cause){.blame = LAUNCH_BLAME_CAUSE, .node = node, .rank = node};
    return judge();
}

/* The attempt fails because these are lost. They were last heard so long after the head had stood still; -1: it never
 * did. */
static int lose(void **state, int first, int second, int heard_s)
{
    (void)begin(state);
    head.slept_ns = heard_s >= 0 ? BASE_NS_PER_S : 0;
    nodes[first].last_message_ns = nodes[second].last_message_ns = (1 + heard_s) * BASE_NS_PER_S;
    nodes[first].state = LAUNCH_NODE_LOST;
    nodes[second].state = LAUNCH_NODE_LOST;
    session.cause = (launch_cause){.blame = LAUNCH_BLAME_HOST, .rank = PROTO_NO_RANK};
    return judge();
}

/* These ranks were not connected. */
static void not_connected(int rank, int peer)
{
    ranks[rank].unreached = peer;
    ranks[rank].failed_unasked = true;
    if (session.cause.blame == 0) {
        session.cause =
            (launch_cause){.blame = LAUNCH_BLAME_CONNECTING, .rank = rank, .waited = true};
    }
}

static void a_second_failure_sends_it_away(void **state)
{
    assert_int_equal(fail_at(state, 1), 0);
    assert_int_equal(fail_at(state, 3), 0);
    assert_int_equal(fail_at(state, 1), 1);
    assert_true(nodes[1].left);
    assert_non_null(strstr(session.cause.error.message, "host h1 (node 1) has failed before"));
}

static void a_checkpoint_in_between_counts(void **state)
{
    assert_int_equal(fail_at(state, 1), 0);
    (void)begin(state);
    result.steps_done = 11;
    session.cause = (launch_cause){.blame = LAUNCH_BLAME_CAUSE, .node = 1, .rank = 1};
    assert_int_equal(judge(), 0);
    assert_int_equal(nodes[1].faults, 1);
}

static void nobody_is_sent_away_who_is_needed(void **state)
{
    assert_int_equal(fail_at(state, 1), 0);
    (void)begin(state);
    options.min_hosts = NODES;
    session.cause = (launch_cause){.blame = LAUNCH_BLAME_CAUSE, .node = 1, .rank = 1};
    assert_int_equal(judge(), 0);
    assert_false(session.cause.fails_again);
}

/* Of the head's host, or of a rank that has waited for others. */
static void other_failures_are_nobodys(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fail_at(state, 0), 0);
    }
}

/* One that is lost is not told to end: it may come back. */
static void a_host_that_is_lost_again_is_not_awaited(void **state)
{
    assert_int_equal(lose(state, 1, 1, -1), 0);
    assert_int_equal(lose(state, 1, 1, -1), 1);
    assert_non_null(strstr(session.cause.error.message, "is not awaited any more"));
}

/* Then it is the head's network, or the head stood still. */
static void hosts_that_are_lost_together_are_not_blamed(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lose(state, 1, 2, -1), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lose(state, 1, 1, HOST_TIMEOUT_S - 1), 0);
    }
}

static void a_head_that_slept_earlier_is_no_excuse(void **state)
{
    assert_int_equal(lose(state, 1, 1, HOST_TIMEOUT_S), 0);
    assert_int_equal(lose(state, 1, 1, HOST_TIMEOUT_S), 1);
}

/* Without host 2 all others are connected. */
static void the_one_with_fewest_links_goes(void **state)
{
    (void)begin(state);
    not_connected(1, 2);
    not_connected(2, 1);
    not_connected(3, 2);
    assert_int_equal(judge(), 2);
    assert_non_null(strstr(session.cause.error.message,
                           "host h1 (node 1) and host h2 (node 2) reach the head, but not each"));
}

static void a_link_to_the_head_takes_the_other_host(void **state)
{
    (void)begin(state);
    not_connected(0, 3);
    not_connected(3, 0);
    assert_int_equal(judge(), 3);
    assert_non_null(strstr(session.cause.error.message, "though their launchers do"));
}

static void a_link_that_is_needed_ends_the_job(void **state)
{
    (void)begin(state);
    options.min_hosts = 0;
    not_connected(1, 2);
    not_connected(2, 1);
    assert_int_equal(judge(), 0);
    assert_true(session.cause.fails_again);
    (void)begin_anew(state);
    options.min_hosts = 0;
    not_connected(1, 2);
    session.cause.waited = false; /* "No route to host": it may come up */
    assert_int_equal(judge(), 0);
    assert_false(session.cause.fails_again);
}

/* Host 1 was sent away, and comes again while hosts gather. Host 3 is there, and the job needs one more. */
static bool is_kept_away(void **state, bool with_second, int64_t lost_until_ns)
{
    (void)begin(state);
    options.min_hosts = 3;
    head.gathering = true;
    head.lost_until_ns = lost_until_ns;
    nodes[1].sent_away = true;
    nodes[1].state = LAUNCH_NODE_ABSENT;
    nodes[2].state = with_second ? LAUNCH_NODE_PREPARED : LAUNCH_NODE_ABSENT;
    return head_keeps_away(&session, 1);
}

static void who_was_sent_away_comes_back_if_it_is_needed(void **state)
{
    assert_true(is_kept_away(state, true, 0));
    assert_true(is_kept_away(state, false, BASE_NO_DEADLINE));
    assert_false(is_kept_away(state, false, 0));
    (void)is_kept_away(state, true, BASE_NO_DEADLINE);
    head.gathering = false; /* it waits for the next attempt */
    assert_false(head_keeps_away(&session, 1));
}

/* All others wait for rank 1, which says nothing, or leave when the first one has. */
static int hang(void **state, bool all_say_so)
{
    (void)begin(state);
    not_connected(2, 1);
    if (all_say_so) {
        not_connected(0, 1);
        not_connected(3, 1);
    }
    return judge();
}

static void a_rank_that_may_hang_goes_the_second_time(void **state)
{
    assert_int_equal(hang(state, true), 0);
    assert_non_null(strstr(session.cause.error.message, "not each other, or rank 1 hangs: check"));
    assert_int_equal(hang(state, false), 1);
    (void)begin_anew(state);
    not_connected(1, 2);
    not_connected(2, 1);
    assert_int_equal(judge(), 2);
    assert_null(strstr(session.cause.error.message, "hangs"));
}

/* "No route to host", in a job that needs all: it may come up. */
static bool ends_by_refused(void **state)
{
    (void)begin(state);
    options.min_hosts = 0;
    not_connected(1, 2);
    session.cause.waited = false;
    assert_int_equal(judge(), 0);
    assert_null(strstr(session.cause.error.message, "hangs"));
    return session.cause.fails_again;
}

static void a_cut_is_counted_apart(void **state)
{
    assert_int_equal(fail_at(state, 2), 0);
    assert_int_equal(fail_at(state, 3), 0);
    assert_false(ends_by_refused(state));
    assert_int_equal(fail_at(state, 3), 3);
    assert_true(ends_by_refused(state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_second_failure_sends_it_away, begin_anew),
        cmocka_unit_test_setup(a_checkpoint_in_between_counts, begin_anew),
        cmocka_unit_test_setup(nobody_is_sent_away_who_is_needed, begin_anew),
        cmocka_unit_test_setup(other_failures_are_nobodys, begin_anew),
        cmocka_unit_test_setup(a_host_that_is_lost_again_is_not_awaited, begin_anew),
        cmocka_unit_test_setup(hosts_that_are_lost_together_are_not_blamed, begin_anew),
        cmocka_unit_test_setup(a_head_that_slept_earlier_is_no_excuse, begin_anew),
        cmocka_unit_test_setup(the_one_with_fewest_links_goes, begin_anew),
        cmocka_unit_test_setup(a_link_to_the_head_takes_the_other_host, begin_anew),
        cmocka_unit_test_setup(a_link_that_is_needed_ends_the_job, begin_anew),
        cmocka_unit_test_setup(who_was_sent_away_comes_back_if_it_is_needed, begin_anew),
        cmocka_unit_test_setup(a_rank_that_may_hang_goes_the_second_time, begin_anew),
        cmocka_unit_test_setup(a_cut_is_counted_apart, begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
