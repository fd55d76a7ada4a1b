/* What identifies a rank, as far as others' files and records say: quotas of the control groups on
 * the way to the root, records of other versions, and how many processors ranks of one host
 * share. */
#include "core/identity.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

/* A file of the system, as the test would have it; NULL: there is none. */
typedef struct fake_file {
    const char *path;
    const char *text;
} fake_file;

enum { FILES_MAX = 5 };

static fake_file files[FILES_MAX];

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (files[i].path != NULL && strcmp(files[i].path, path) == 0) {
            return fmemopen((void *)(uintptr_t)files[i].text, strlen(files[i].text), "r");
        }
    }
    return strstr(path, "cgroup") != NULL ? NULL : __real_fopen(path, mode);
}

static uint32_t quota_of(const fake_file all[FILES_MAX])
{
    coll_identity identity;
    for (int i = 0; i < FILES_MAX; i++) {
        files[i] = all[i].text != NULL ? all[i] : (fake_file){.path = NULL};
    }
    coll_identity_get(&identity);
    memset(files, 0, sizeof files);
    return identity.cpu_quota;
}

static uint32_t quota(const char *group, const char *root, const char *middle, const char *leaf)
{
    const fake_file all[FILES_MAX] = {{"/proc/self/cgroup", group},
                                      {"/sys/fs/cgroup/cpu.max", root},
                                      {"/sys/fs/cgroup/jobs/cpu.max", middle},
                                      {"/sys/fs/cgroup/jobs/one/cpu.max", leaf}};
    return quota_of(all);
}

/* The whole processors of the smallest quota, rounded up. */
static void the_smallest_quota_counts(void **state)
{
    static const char group[] = "0::/jobs/one\n";
    static const char none[] = "max 100000\n";
    static const char two[] = "200000 100000\n";
    static const char three[] = "300000 100000\n";
    static const char most_of_four[] = "350001 100000\n";
    (void)state;
    assert_int_equal(quota(group, none, none, none), 0);
    assert_int_equal(quota(group, NULL, none, two), 2);
    assert_int_equal(quota(group, NULL, two, none), 2);
    assert_int_equal(quota(group, two, none, none), 2);
    assert_int_equal(quota(group, three, two, most_of_four), 2);
    assert_int_equal(quota(group, most_of_four, three, NULL), 3);
    assert_int_equal(quota(group, NULL, NULL, most_of_four), 4);
    assert_int_equal(quota(group, NULL, NULL, "50000 100000\n"), 1);
    assert_int_equal(quota(group, NULL, NULL, NULL), 0);
    assert_int_equal(quota("0::/\n", three, two, two), 3);
}

static void quotas_that_cannot_be_are_none(void **state)
{
    static const char group[] = "0::/jobs/one\n";
    static const char *const texts[] = {"\n",       "0 100000\n", "100000 0\n",
                                        "100000\n", "many\n",     "99999999999999 1\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(quota(group, NULL, NULL, texts[i]), 0);
    }
}

/* A host with both versions has the controller in version 1. */
static void a_host_of_both_versions_has_quotas_too(void **state)
{
    const fake_file all[FILES_MAX] = {
        {"/proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/one\n0::/\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
        {"/sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "150000\n"},
        {"/sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000\n"}};
    (void)state;
    assert_int_equal(quota_of(all), 2);
}

static coll_identity someone(const char *boot, uint64_t pids, uint64_t nets, uint8_t cpus,
                             uint32_t cpu_quota)
{
    coll_identity identity = {.version = 3,
                              .pid_namespace = pids,
                              .net_namespace = nets,
                              .cpu_quota = cpu_quota,
                              .cpus = {cpus}};
    (void)snprintf(identity.boot_id, sizeof identity.boot_id, "%s", boot);
    return identity;
}

static void a_host_is_a_boot_and_its_namespaces(void **state)
{
    const coll_identity mine = someone("boot", 1, 2, 1, 0);
    const coll_identity others[] = {someone("Boot", 1, 2, 1, 0), someone("boot", 2, 2, 1, 0),
                                    someone("boot", 1, 1, 1, 0)};
    const coll_identity unknown[] = {someone("", 1, 2, 1, 0), someone("boot", 0, 2, 1, 0),
                                     someone("boot", 1, 0, 1, 0)};
    (void)state;
    assert_true(coll_identity_same_host(&mine, &mine));
    for (int i = 0; i < 3; i++) {
        assert_false(coll_identity_same_host(&mine, &others[i]));
        assert_false(coll_identity_same_host(&unknown[i], &unknown[i])); /* not known: nobody's */
    }
}

static void ranks_on_other_hosts_are_beyond(void **state)
{
    const coll_identity here = someone("boot", 1, 2, 1, 0);
    const coll_identity there = someone("Boot", 1, 2, 1, 0);
    const coll_identity unknown = someone("", 1, 2, 1, 0);
    const coll_identity all[] = {here, here, there};
    (void)state;
    assert_true(coll_identity_reaches_beyond(all, 3, 0));
    assert_true(coll_identity_reaches_beyond(all, 3, 2));
    assert_false(coll_identity_reaches_beyond(all, 2, 0));
    assert_false(coll_identity_reaches_beyond(&unknown, 1, 0)); /* nobody else is there */
}

static void processors_are_shared_within_a_quota(void **state)
{
    coll_identity all[4] = {someone("a", 1, 1, 0x03, 0), someone("a", 1, 1, 0x06, 0),
                            someone("b", 1, 1, 0xf0, 1), someone("a", 1, 1, 0x00, 0)};
    (void)state;
    assert_int_equal(coll_identity_cpus(all, 4, &all[0]), 3);
    all[1].cpu_quota = 5;
    assert_int_equal(coll_identity_cpus(all, 4, &all[0]), 3);
    all[0].cpu_quota = 2;
    assert_int_equal(coll_identity_cpus(all, 4, &all[3]), 2);
    assert_int_equal(coll_identity_cpus(all, 4, &all[2]), 1);
    memset(all[2].cpus, 0, sizeof all[2].cpus);
    all[2].cpu_quota = 0;
    assert_int_equal(coll_identity_cpus(all, 4, &all[2]), 1); /* it runs, after all */
}

static void records_come_back_as_they_were(void **state)
{
    coll_identity mine;
    coll_identity back;
    coll_error error;
    uint8_t record[COLL_IDENTITY_BYTES];
    (void)state;
    coll_identity_get(&mine);
    mine.rank = 3;
    mine.world_size = 5;
    mine.transport = COLL_TRANSPORT_TCP;
    mine.algorithm = COLL_ALGORITHM_RING;
    mine.cpu_quota = 7;
    coll_identity_encode(&mine, record);
    assert_ok(coll_identity_decode(record, &back, &error), &error);
    assert_memory_equal(&mine, &back, sizeof mine);
    assert_true(coll_identity_same_host(&mine, &back));
}

static void other_versions_are_refused(void **state)
{
    coll_identity mine;
    coll_identity back;
    coll_error error = {.message = ""};
    uint8_t record[COLL_IDENTITY_BYTES];
    (void)state;
    coll_identity_get(&mine);
    mine.version = 1;
    coll_identity_encode(&mine, record);
    assert_status(coll_identity_decode(record, &back, &error), COLL_ERR_PEER);
    assert_non_null(strstr(error.message, "version 1 of libcoll, this is 4"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_quota_counts),
        cmocka_unit_test(quotas_that_cannot_be_are_none),
        cmocka_unit_test(a_host_of_both_versions_has_quotas_too),
        cmocka_unit_test(a_host_is_a_boot_and_its_namespaces),
        cmocka_unit_test(ranks_on_other_hosts_are_beyond),
        cmocka_unit_test(processors_are_shared_within_a_quota),
        cmocka_unit_test(records_come_back_as_they_were),
        cmocka_unit_test(other_versions_are_refused),
    };
    return cmocka_run_group_tests_name("coll-identity", tests, NULL, NULL);
}
