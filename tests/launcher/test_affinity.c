/* job/affinity.h: CPUs that no two jobs share. */
#include "job/affinity.h"

#include <sched.h>
#include <unistd.h>

#include "support.h"

static bool in_namespace; /* the tests run in a network namespace of their own */

/* Leaves out one of this process's CPUs: with a part of the machine's CPUs a job is bound in a
 * namespace, too. False if it has only one. */
static bool take_some_cpus(cpu_set_t *before)
{
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    cpu_set_t some = *before;
    int cpu = 0;
    while (!CPU_ISSET(cpu, &some)) {
        cpu++;
    }
    CPU_CLR(cpu, &some);
    return CPU_COUNT(&some) > 0 && sched_setaffinity(0, sizeof some, &some) == 0;
}

static void restore_cpus(const cpu_set_t *before)
{
    assert_int_equal(sched_setaffinity(0, sizeof *before, before), 0);
}

/* Every CPU of `count` ranks is its own, and allowed. */
static void check_distinct(const launch_affinity *affinity, int ranks)
{
    cpu_set_t allowed;
    cpu_set_t seen;
    CPU_ZERO(&seen);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int rank = 0; rank < ranks; rank++) {
        cpu_set_t set;
        cpu_set_t both;
        launch_affinity_set(affinity, rank, &set);
        assert_int_equal(CPU_COUNT(&set), affinity->cpus_per_rank);
        CPU_AND(&both, &set, &allowed);
        assert_true(CPU_EQUAL(&both, &set));
        CPU_AND(&both, &set, &seen);
        assert_int_equal(CPU_COUNT(&both), 0);
        CPU_OR(&seen, &seen, &set);
    }
}

static void no_two_jobs_share_a_cpu(void **state)
{
    (void)state;
    base_error error;
    launch_affinity first;
    launch_affinity second;
    launch_affinity third;
    cpu_set_t before;
    if (!take_some_cpus(&before)) {
        skip();
    }
    assert_ok(launch_affinity_init(&first, 1, 1, LAUNCH_AFFINITY_CLAIM, &error), &error);
    if (!first.bound) {
        assert_false(in_namespace);
        /* other jobs may hold them all, if main could not leave their network namespace */
        launch_affinity_fini(&first);
        restore_cpus(&before);
        skip();
    }
    check_distinct(&first, 1);
    assert_ok(launch_affinity_init(&second, 1, 1, LAUNCH_AFFINITY_CLAIM, &error), &error);
    if (second.bound) {
        assert_int_not_equal(first.cpus[0], second.cpus[0]);
    }
    launch_affinity_fini(&second);

    /* a dry run takes nothing: the CPUs that it saw are still free */
    launch_affinity_fini(&first);
    assert_ok(launch_affinity_init(&first, 1, 1, LAUNCH_AFFINITY_LOOK, &error), &error);
    assert_ok(launch_affinity_init(&third, 1, 1, LAUNCH_AFFINITY_CLAIM, &error), &error);
    assert_int_equal(first.bound, third.bound);
    launch_affinity_fini(&first);
    launch_affinity_fini(&third);
    restore_cpus(&before);
}

/* Jobs in other network namespaces of this machine do not see each other's claims. */
static void a_namespace_with_all_cpus_is_not_bound(void **state)
{
    (void)state;
    base_error error;
    cpu_set_t allowed;
    launch_affinity affinity;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (!in_namespace || CPU_COUNT(&allowed) < sysconf(_SC_NPROCESSORS_ONLN)) {
        skip();
    }
    assert_ok(launch_affinity_init(&affinity, 1, 1, LAUNCH_AFFINITY_CLAIM, &error), &error);
    assert_false(affinity.bound);
    assert_string_equal(affinity.why_not, "other containers may use the same CPUs");
    launch_affinity_fini(&affinity);
}

static void more_ranks_than_cpus_are_not_bound(void **state)
{
    (void)state;
    base_error error;
    launch_affinity affinity;
    assert_ok(launch_affinity_init(&affinity, BASE_RANKS_MAX, 16, LAUNCH_AFFINITY_CLAIM, &error),
              &error);
    assert_false(affinity.bound);
    assert_string_not_equal(affinity.why_not, "");
    launch_affinity_fini(&affinity);
}

/* An engine has bound two launchers to one CPU: both take it, and claim nothing. */
static void an_engines_binding_stays(void **state)
{
    (void)state;
    base_error error;
    cpu_set_t before;
    cpu_set_t one;
    cpu_set_t set;
    launch_affinity launchers[2];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2) {
        skip();
    }
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(launch_affinity_init(&launchers[i], 1, 1, LAUNCH_AFFINITY_ENGINE, &error),
                  &error);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(launchers[i].bound);
        assert_int_equal(launchers[i].claim_count, 0);
        launch_affinity_set(&launchers[i], 0, &set);
        assert_true(CPU_EQUAL(&set, &one));
        launch_affinity_fini(&launchers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_jobs_share_a_cpu),
        cmocka_unit_test(a_namespace_with_all_cpus_is_not_bound),
        cmocka_unit_test(more_ranks_than_cpus_are_not_bound),
        cmocka_unit_test(an_engines_binding_stays),
    };
    /* The rest of the suite runs jobs at the same time. In another network namespace their claims
     * do not count. */
    in_namespace = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!in_namespace) {
        print_message("among the claims of other jobs: no namespaces here\n");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
