/* A rank's place, from variables of whoever has started it. */
#include <stdlib.h>

#include "coll/bootstrap.h"
#include "ringfence/coll_error.h"
#include "support.h"

enum { VARIABLES_MAX = 6 };

static const char *const all[] = {"RANK",
                                  "WORLD_SIZE",
                                  "SLURM_PROCID",
                                  "SLURM_STEP_NUM_TASKS",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "RINGFENCE_COLL_SECRET",
                                  "TORCHELASTIC_USE_AGENT_STORE"};

static coll_status read_environment(const char *const variables[VARIABLES_MAX][2],
                                    coll_bootstrap_options *options, coll_error *error)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(unsetenv(all[i]), 0);
    }
    for (int i = 0; i < VARIABLES_MAX && variables[i][0] != NULL; i++) {
        assert_int_equal(setenv(variables[i][0], variables[i][1], 1), 0);
    }
    *options = (coll_bootstrap_options){.size = sizeof *options, .timeout_ns = 5};
    return coll_bootstrap_environment(options, error);
}

static const struct {
    const char *variables[VARIABLES_MAX][2];
    int rank;
    int world_size;
    int port;
    const char *address;
} places[] = {
    {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "1234"}},
     1,
     2,
     1234,
     "n0"},
    {{{"RANK", "0"}, {"WORLD_SIZE", "64"}, {"MASTER_ADDR", "fd00::1"}}, 0, 64, 29500, "fd00::1"},
    {{{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"MASTER_ADDR", "n0"},
      {"MASTER_PORT", "29400"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     3,
     4,
     29401,
     "n0"},
    {{{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"MASTER_ADDR", "n0"},
      {"MASTER_PORT", "29400"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"}},
     3,
     4,
     29400,
     "n0"},
    {{{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"MASTER_ADDR", "n0"}},
     2,
     3,
     29500,
     "n0"},
    {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"MASTER_ADDR", "a"}},
     0,
     3,
     29500,
     "a"},
    {{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MASTER_ADDR", "a"}}, 1, 3, 29500, "a"},
    {{{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "1"},
      {"MASTER_ADDR", "a"}},
     1,
     2,
     29500,
     "a"},
    {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, 29500, NULL},
};

static void places_are_found(void **state)
{
    coll_bootstrap_options options;
    coll_error error;
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_ok(read_environment(places[i].variables, &options, &error), &error);
        assert_int_equal(options.rank, places[i].rank);
        assert_int_equal(options.world_size, places[i].world_size);
        assert_int_equal(options.port, places[i].port);
        assert_true((options.address == NULL) == (places[i].address == NULL));
        if (places[i].address != NULL) {
            assert_string_equal(options.address, places[i].address);
        }
        assert_true(options.secret == NULL && options.secret_bytes == 0);
        assert_int_equal(options.timeout_ns, 5);
    }
}

static void a_secret_is_taken(void **state)
{
    static const char *const variables[VARIABLES_MAX][2] = {
        {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"RINGFENCE_COLL_SECRET", "abc"}};
    coll_bootstrap_options options;
    coll_error error;
    (void)state;
    assert_ok(read_environment(variables, &options, &error), &error);
    assert_int_equal(options.secret_bytes, 3);
    assert_memory_equal(options.secret, "abc", 3);
}

static void what_is_missing_is_named(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX][2];
        const char *message;
    } cases[] = {
        {{{"WORLD_SIZE", "2"}}, "RANK is not in the environment: set RANK, WORLD_SIZE"},
        {{{"RANK", "0"}}, "WORLD_SIZE is not in the environment"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "65"}},
         "WORLD_SIZE=65 in the environment: must be a number from 1 to 64"},
        {{{"RANK", "2"}, {"WORLD_SIZE", "2"}},
         "RANK=2 in the environment: must be a number from 0 to 1"},
        {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK=x in the environment"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not in the environment"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65536"}},
         "MASTER_PORT=65536 in the environment"},
        {{{"RANK", "0"},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "a"},
          {"MASTER_PORT", "65535"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
         "must be a number from 1 to 65534"},
    };
    coll_bootstrap_options options;
    coll_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(read_environment(cases[i].variables, &options, &error), COLL_ERR_INVALID);
        assert_has(error.message, cases[i].message);
    }
    options = (coll_bootstrap_options){.size = 3};
    assert_status(coll_bootstrap_environment(&options, &error), COLL_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_found),
        cmocka_unit_test(a_secret_is_taken),
        cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
