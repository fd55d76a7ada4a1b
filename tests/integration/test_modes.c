/* Each way to train, in one short job. What it trains is compared elsewhere, in many layouts: this is
 * what AddressSanitizer sees of whole jobs, since under it those tests take minutes (dev-only). */
#include "training.h"

static training_run run; /* large: it holds a program's output */

static const struct {
    const char *name;
    const char *const *flags;
} modes[] = {
#define MODE(name, ...)                                                                            \
    {                                                                                              \
        name, (const char *const[])                                                                \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }
    MODE("1f1b", "--mode", "pp-cpu", "--ranks", "2", "--layers", "2", "--micro-batches", "3",
         "--recompute"),
    MODE("interleaved", "--mode", "pp-cpu", "--ranks", "2", "--layers", "4", "--micro-batches", "4",
         "--pipeline", "interleaved", "--dropout", "0.1", "--eval-every", "1", "--eval"),
    MODE("tensor", "--mode", "pp-cpu", "--ranks", "4", "--stages", "1", "--tensor", "2", "--heads",
         "2", "--micro-batches", "2", "--eval-every", "1", "--keep-best", "--save-every", "2"),
    MODE("context", "--ranks", "2", "--context-ranks", "2", "--micro-batches", "2", "--zero", "2",
         "--bucket-bytes", "20000", "--eval-every", "1"),
    MODE("experts", "--ranks", "2", "--expert-ranks", "2", "--experts", "4", "--micro-batches", "2",
         "--recompute", "--zero", "1", "--eval-every", "1"),
    MODE("local", "--ranks", "2", "--local-steps", "2", "--micro-batches", "3", "--clip", "0.5",
         "--bucket-bytes", "20000", "--eval-every", "2", "--save-every", "2"),
    MODE("shards", "--ranks", "2", "--zero", "3", "--dropout", "0.2", "--recompute", "--eval-every",
         "1", "--save-every", "2"),
    MODE("muon", "--ranks", "2", "--optimizer", "muon", "--micro-batches", "2"),
#undef MODE
};

static void each_mode_trains(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const char *flags[TRAINING_FLAGS_MAX] = {"--steps", "2"};
        for (size_t k = 0; modes[i].flags[k] != NULL; k++) {
            flags[2 + k] = modes[i].flags[k];
        }
        training_expect(&run, &test_shared_directory, modes[i].name, 0, flags);
        json_t *manifest = training_manifest(&run);
        const json_t *equal = json_object_get(manifest, "byte_equivalent"); /* null of shards */
        if (equal == NULL || json_is_false(equal)) {
            fail_msg("%s: ranks differ", modes[i].name);
        }
        json_decref(manifest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_mode_trains)};
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
