/* engine/place.h: every engine's variables, alone and together. */
#include "engine/place.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

enum { VARIABLES_MAX = 8, LINE_BYTES = 256 };

typedef struct environment {
    const char *pairs[VARIABLES_MAX + 1]; /* "NAME=VALUE" */
} environment;

static const launch_place_flags no_flags = {.nodes = 1};

static const char *look_up(void *user, const char *name)
{
    const environment *from = user;
    const size_t length = strlen(name);
    for (size_t i = 0; from->pairs[i] != NULL; i++) {
        if (strncmp(from->pairs[i], name, length) == 0 && from->pairs[i][length] == '=') {
            return from->pairs[i] + length + 1;
        }
    }
    return NULL;
}

/* "PMI-1 1/4 tcp://a:1 step": all that a place says, or "refused". */
static const char *find(const launch_place_flags *flags, environment from)
{
    static char line[LINE_BYTES];
    char engine[LAUNCH_PLACE_TEXT_BYTES];
    launch_place place;
    base_error error;
    if (launch_place_find(flags, look_up, &from, &place, &error) != BASE_OK) {
        return "refused";
    }
    launch_place_describe(&place, engine);
    (void)snprintf(line, sizeof line, "%s %d/%d%s%s%s%s", engine, (int)place.node, (int)place.nodes,
                   place.rendezvous[0] != '\0' ? " " : "", place.rendezvous,
                   place.step[0] != '\0' ? " " : "", place.step);
    return line;
}

#define PMIX  "PMIX_RANK=2", "PMIX_NAMESPACE=x"
#define PMI   "PMI_FD=7", "PMI_RANK=1", "PMI_SIZE=4"
#define SLURM "SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=5"

static void each_engine_is_found(void **state)
{
    (void)state;
    static const struct {
        environment from;
        const char *place;
    } rows[] = {
        {{{NULL}}, "the command line 0/1"},
        {{{PMIX}}, "PMIx 2/0"},
        {{{PMI}}, "PMI-1 1/4"},
        {{{SLURM}}, "srun 3/5 slurm-12.0"},
        {{{SLURM, "SLURM_CLUSTER_NAME=big", "SLURM_RESTART_COUNT=2"}}, "srun 3/5 big-12.0.2"},
        {{{"GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=n0",
           "MASTER_PORT=29500"}},
         "torchrun 1/2 tcp://n0:29501"},
        {{{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=n0", "MASTER_PORT=1234"}},
         "RANK and WORLD_SIZE 1/2 tcp://n0:1234"},
        {{{"RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=fd00::1"}},
         "RANK and WORLD_SIZE 0/3 tcp://[fd00::1]:29500"},
        {{{"RANK=1", "WORLD_SIZE=2"}}, "RANK and WORLD_SIZE 1/2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(find(&no_flags, rows[i].from), rows[i].place);
    }
}

static void what_says_nothing_of_several_launchers_is_left_alone(void **state)
{
    (void)state;
    static const struct {
        environment from;
        const char *place;
    } rows[] = {
        /* a script of sbatch has a task 0, but is no step */
        {{{"SLURM_JOB_ID=12", "SLURM_PROCID=0", "SLURM_NTASKS=4"}},
         "the command line, in a job of Slurm 0/1"},
        {{{"RANK=3"}}, "the command line 0/1"},
        {{{"RANK=0", "WORLD_SIZE=1"}}, "the command line 0/1"},
        {{{"WORLD_SIZE=4"}}, "the command line 0/1"},
        {{{"PMI_FD=", "PMI_RANK=1", "PMI_SIZE=4"}}, "the command line 0/1"},
        /* an index alone may number jobs that know nothing of each other */
        {{{"JOB_COMPLETION_INDEX=1"}}, "the command line 0/1"},
        /* a program that a launcher has started starts another one */
        {{{PMI, "RINGFENCE_JOB_FD=5"}}, "the command line 0/1"},
        {{{"RANK=1", "WORLD_SIZE=2", "RINGFENCE_JOB_FD=5"}}, "the command line 0/1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(find(&no_flags, rows[i].from), rows[i].place);
    }
}

static void of_several_the_first_is_taken(void **state)
{
    (void)state;
    static const struct {
        environment from;
        const char *place;
    } rows[] = {
        {{{PMIX, PMI}}, "PMIx 2/0"},
        {{{PMIX, SLURM}}, "PMIx, in a job of Slurm 2/0"},
        {{{PMI, SLURM}}, "PMI-1, in a job of Slurm 1/4"},
        {{{SLURM, "RANK=1", "WORLD_SIZE=2"}}, "srun 3/5 slurm-12.0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(find(&no_flags, rows[i].from), rows[i].place);
    }
}

static void flags_come_first(void **state)
{
    (void)state;
    const launch_place_flags both = {true, true, 3, 1};
    const launch_place_flags alone = {true, false, 1, 0};
    const launch_place_flags nodes = {true, false, 4, 0};
    const environment pmi = {{PMI}};
    const environment pod = {{"JOB_COMPLETION_INDEX=2"}};
    const environment none = {{NULL}};
    assert_string_equal(find(&both, pmi), "the command line 1/3");
    assert_string_equal(find(&alone, pmi), "the command line 0/1");
    assert_string_equal(find(&nodes, pmi), "PMI-1 1/4");
    assert_string_equal(find(&nodes, (environment){{SLURM}}), "refused"); /* it has 5 */
    assert_string_equal(find(&nodes, pod), "Kubernetes 2/4");
    assert_string_equal(find(&nodes, none), "the command line 0/4");
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const environment rows[] = {
        {{"PMIX_RANK=-1"}},
        {{"PMIX_RANK=256"}},                        /* PROTO_NODES_MAX */
        {{"PMI_FD=2", "PMI_RANK=1", "PMI_SIZE=4"}}, /* standard error */
        {{"PMI_FD=x", "PMI_RANK=1", "PMI_SIZE=4"}},
        {{"PMI_FD=7", "PMI_RANK=4", "PMI_SIZE=4"}},
        {{"PMI_FD=7", "PMI_RANK=0"}},
        {{"PMI_FD=7", "PMI_RANK=0", "PMI_SIZE=257"}},
        {{"PMI_FD=7", "PMI_RANK=0", "PMI_SIZE= 4"}},
        {{"PMI_FD=7", "PMI_RANK=0", "PMI_SIZE=4294967298"}},
        {{"SLURM_JOB_ID=../x", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2"}},
        {{"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2"}},
        {{"RANK=2", "WORLD_SIZE=2"}},
        {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65536"}},
        {{"GROUP_RANK=0", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65535"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(find(&no_flags, rows[i]), "refused");
    }
}

/* Variables may be left over in a shell. */
static void a_refusal_names_the_variable_and_the_way_out(void **state)
{
    (void)state;
    static const struct {
        environment from;
        const char *message;
    } rows[] = {
        {{{"GROUP_RANK=0"}},
         "WORLD_SIZE is not in the environment (GROUP_RANK is set; to run alone: --nodes 1)"},
        {{{"SLURM_STEP_ID=0"}},
         "SLURM_STEP_NUM_TASKS is not in the environment (SLURM_STEP_ID is set; to run alone: "
         "--nodes 1)"},
        {{{"PMI_FD=1", "PMI_RANK=0", "PMI_SIZE=2"}},
         "PMI_FD=1 in the environment: must be no standard descriptor (PMI_FD is set; to run "
         "alone: --nodes 1)"},
        {{{"RANK=2", "WORLD_SIZE=2"}},
         "RANK=2 with WORLD_SIZE=2 (RANK and WORLD_SIZE are set; to run alone: --nodes 1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        launch_place place;
        base_error error;
        environment from = rows[i].from;
        assert_status(launch_place_find(&no_flags, look_up, &from, &place, &error),
                      BASE_ERR_INVALID);
        assert_string_equal(error.message, rows[i].message);
    }
}

static void each_says_how_a_job_is_started_again(void **state)
{
    (void)state;
    launch_place place = {.engine = LAUNCH_ENGINE_SLURM, .in_slurm = true};
    assert_has(launch_place_again(&place), "requeue");
    place.engine = LAUNCH_ENGINE_PMIX;
    assert_has(launch_place_again(&place), "requeue");
    place.in_slurm = false;
    assert_has(launch_place_again(&place), "mpirun");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_engine_is_found),
        cmocka_unit_test(what_says_nothing_of_several_launchers_is_left_alone),
        cmocka_unit_test(of_several_the_first_is_taken),
        cmocka_unit_test(flags_come_first),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(a_refusal_names_the_variable_and_the_way_out),
        cmocka_unit_test(each_says_how_a_job_is_started_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
