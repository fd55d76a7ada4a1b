/* launch/options.h: a command line becomes a job. */
#include "launch/options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/other_names.h"
#include "words.h"

static void no_flags_give_the_default_job(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options, WORDS(), &error), &error);
    assert_int_equal(options.action, LAUNCH_ACTION_RUN);
    assert_int_equal(options.job.job.mode, PROTO_MODE_DDP_CPU);
    assert_int_equal(options.job.job.world_size, 2);
    assert_int_equal(options.job.train.steps, 100);
    assert_int_equal(options.job.train.batch, 16);
    assert_int_equal(options.job.model.context, 64);
    assert_int_equal(options.job.job.seed, 35000);
    assert_int_equal(options.job.parallel.timeout_ms, 300000);
    assert_true(options.bind);
    assert_false(options.overwrite);
}

static void mistyped_words_get_a_suggestion(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *expected;
    } cases[] = {
        {{"--rakns", "2"}, "unknown flag --rakns; did you mean --ranks?"},
        {{"--mode", "ddp_cpu"}, "; did you mean ddp-cpu?"},
        {{"--mode", "progra"}, "'progra': must be one of: ddp-cpu generate tp-cpu gate-check "},
        {{"steps", "2"}, "unexpected argument 'steps'; did you mean --steps?"},
        {{"--ranks", "2", "./a.out"}, "'./a.out'; a program stands behind --"},
        {{"--learning-rate", "1"}, "unknown flag --learning-rate; did you mean --lr?"},
        {{"--world-size", "4"}, "unknown flag --world-size; did you mean --ranks?"},
        {{"-np", "4"}, "unknown flag -n; did you mean --ranks?"},
        {{"--nproc_per_node=4"}, "unknown flag --nproc_per_node=4; did you mean --ranks-per-node?"},
        {{"--model", "gpt2"}, "unknown flag --model; did you mean --checkpoint?"},
        {{"--output-dir", "x"}, "; did you mean --out?"},
        {{"--batch-size", "8"}, "; did you mean --batch?"},
        {{"--hidden-dropout", "0.1"}, "; did you mean --dropout?"},
        {{"--gradient-checkpointing"}, "; did you mean --recompute?"},
        {{"--recompute-granularity=full"}, "; did you mean --recompute?"},
        {{"--json", "plan"}, "plan comes first: launcher plan [FLAGS]"},
        {{"gpus", "x"}, "gpus takes no arguments: launcher gpus [--json]"},
        {{"generate"}, "unexpected argument 'generate'; did you mean --mode generate?"},
        {{"train"}, "unexpected argument 'train'; did you mean --mode ddp-cpu?"},
        {{"pipeline-simulate", "--pipeline", "1f1b"},
         "'pipeline-simulate'; it is a program of its own: pipeline-simulate --help"},
        {{"plann"}, "unexpected argument 'plann'; did you mean plan?"},
        {{"compar"}, "unexpected argument 'compar'; did you mean compare?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static launch_options options;
        base_error error = {.message = ""};
        assert_status(parse(&options, cases[i].words, &error), BASE_ERR_INVALID);
        assert_has(error.message, cases[i].expected);
    }
}

static void flags_of_gpus_are_named_elsewhere(void **state)
{
    (void)state;
    static const char *const flags[] = {"--devices=0",   "--cuda-libs=/lib", "--exact",
                                        "--nccl-native", "--mixed-gpus",     "--share-gpu"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        static launch_options options;
        base_error error = {.message = ""};
        char expected[96];
        (void)snprintf(expected, sizeof expected, "%.*s goes with modes on GPUs (",
                       (int)strcspn(flags[i], "="), flags[i]);
        assert_status(parse(&options, WORDS(flags[i]), &error), BASE_ERR_INVALID);
        assert_true(strncmp(error.message, expected, strlen(expected)) == 0);
        assert_status(parse(&options, WORDS("--mode=ddp-nccl", flags[i]), &error), BASE_OK);
    }
}

/* Each is no option of ours, and stands for one. */
static void other_names_are_of_our_options(void **state)
{
    (void)state;
    for (int i = 0; i < LAUNCH_OTHER_NAMES; i++) {
        const base_other_name *other = &launch_other_names[i];
        static launch_options options;
        base_error error = {.message = ""};
        char theirs[64];
        char ours[64];
        char question[96];
        (void)snprintf(theirs, sizeof theirs, "%s%s", strlen(other->name) == 1 ? "-" : "--",
                       other->name);
        (void)snprintf(ours, sizeof ours, "--%s=", other->option);
        (void)snprintf(question, sizeof question, "unknown flag %s; did you mean --%s?", theirs,
                       other->option);
        assert_status(parse(&options, WORDS(theirs), &error), BASE_ERR_INVALID);
        assert_string_equal(error.message, question);
        if (parse(&options, WORDS(ours), &error) != BASE_OK &&
            strstr(error.message, "unknown") != NULL) {
            fail_msg("'%s'", error.message);
        }
    }
}

/* What would lose its work does not start again by itself; the refusal says what to do. */
static void a_job_starts_again_only_where_it_can_go_on(void **state)
{
    (void)state;
    const struct {
        const char *const *words;
        const char *message; /* NULL: it is accepted */
    } cases[] = {
        {WORDS("--max-restarts", "1", "--save-every", "5", "--resume"), NULL},
        {WORDS("--save-every", "5", "--keep", "1"), NULL},
        {WORDS("--max-restarts", "1"), "--max-restarts of a training needs --save-every N and "
                                       "--resume: else it would begin anew"},
        {WORDS("--max-restarts", "1", "--resume"),
         "--max-restarts of a training needs --save-every N and --resume: else it would begin "
         "anew"},
        {WORDS("--max-restarts", "1", "--save-every", "5"),
         "--max-restarts of a training needs --save-every N and --resume: else it would begin "
         "anew"},
        {WORDS("--mode", "tp-cpu", "--prompt", "a", "--max-restarts", "1"),
         "--max-restarts goes with trainings, gate-check and -- PROGRAM; --mode tp-cpu would begin "
         "anew: run the command again"},
        {WORDS("--mode", "tp-cpu", "--prompt", "a", "--resume"),
         "--resume goes with modes that train (ddp-cpu, ddp-nccl, pp-cpu)"},
        {WORDS("--mode", "generate", "--prompt", "a", "--save-every", "1"),
         "--save-every goes with modes that train (ddp-cpu, ddp-nccl, pp-cpu)"},
        {WORDS("--mode", "tp-cpu", "--prompt", "a", "--recompute"),
         "--recompute goes with modes that train (ddp-cpu, ddp-nccl, pp-cpu)"},
        {WORDS("--keep", "3"), "--keep goes with --save-every"},
        {WORDS("--save-every", "5", "--keep", "0"),
         "--keep: 0: must be a whole number from 1 to 1000000000"},
        {WORDS("--interface", "^docker0,lo"), NULL},
        {WORDS("--interface", "10.92.0.0/16"), NULL},
        {WORDS("--interface", "10.92.0.0/99"),
         "--interface: '10.92.0.0/99' is no network (as 10.0.0.0/8)"},
        {WORDS("--interface", "::"),
         "--interface: :: is every interface, and nobody can connect to that: name one"},
        {WORDS("--resume", "--overwrite"), "--resume goes on with the record in --out, and "
                                           "--overwrite removes it: leave one of them out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].words, cases[i].message);
    }
}

#define HOSTS                                                                                      \
    "--nodes", "2", "--node-rank", "0", "--rendezvous", "tcp://a:1", "--job-key", "key",           \
        "--ranks", "2"
#define AGAIN "--max-restarts", "1", "--save-every", "5", "--resume"

/* A job that goes on with fewer hosts has the same bits; what could not is refused. */
static void fewer_hosts_go_on_where_bits_stay(void **state)
{
    (void)state;
    const struct {
        const char *const *words;
        const char *message; /* NULL: it is accepted */
    } cases[] = {
        {WORDS(HOSTS, "--max-restarts", "1", "--save-every", "5", "--resume"), NULL},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1"), NULL},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--zero", "3", "--micro-batches", "3"), NULL},
        {WORDS(HOSTS, "--min-nodes", "1"),
         "--min-nodes goes with --max-restarts, --save-every and --resume"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "3"), "--min-nodes 3 is more than --nodes 2"},
        {WORDS(AGAIN, "--min-nodes", "1"), "--min-nodes goes with --nodes of 2 or more"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--micro-batches", "3"),
         "--min-nodes needs a power of two of --micro-batches, else another number of ranks has "
         "other bits: here are 2 ranks with 3 micro-batches each"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--micro-batches", "256"),
         "--min-nodes 1: no number of ranks there shares out 2 ranks × 256 micro-batches with at "
         "most 256 micro-batches each"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--algorithm", "ring"),
         "--min-nodes needs --algorithm auto, direct, recursive_doubling or halving_doubling: with "
         "others another number of ranks has other bits"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--local-steps", "5"),
         "--min-nodes does not go with --local-steps: each rank has parameters and moments of its "
         "own"},
        {WORDS(HOSTS, AGAIN, "--min-nodes", "1", "--mode", "pp-cpu"),
         "--min-nodes goes with --mode ddp-cpu: other modes do not train on another number of "
         "ranks, or a token says how many there are"},
        {WORDS(HOSTS, "--mode", "gate-check", "--max-restarts", "1", "--min-nodes", "1"),
         "--min-nodes goes with --mode ddp-cpu: other modes do not train on another number of "
         "ranks, or a token says how many there are"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].words, cases[i].message);
    }
}

static void inference_has_a_seed_of_its_own(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    static const char *const modes[] = {"tp-cpu", "generate"};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(parse(&options, WORDS("--mode", modes[i], "--prompt", "p"), &error), &error);
        assert_int_equal(options.job.job.seed, 35200);
        assert_ok(
            parse(&options, WORDS("--seed", "35000", "--mode", modes[i], "--prompt", "p"), &error),
            &error);
        assert_int_equal(options.job.job.seed, 35000);
    }
}

static void buckets_are_larger_on_gpus(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    static const struct {
        const char *mode;
        int64_t bucket_bytes;
    } modes[] = {{"ddp-cpu", 524288}, {"ddp-nccl", 26214400}};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(parse(&options, WORDS("--mode", modes[i].mode), &error), &error);
        assert_int_equal(options.job.parallel.bucket_bytes, modes[i].bucket_bytes);
        assert_ok(parse(&options, WORDS("--bucket-bytes", "2048", "--mode", modes[i].mode), &error),
                  &error);
        assert_int_equal(options.job.parallel.bucket_bytes, 2048);
    }
}

/* Without local steps JOB.json says nothing of them. */
static void local_steps_have_an_outer_step(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options, WORDS("--local-steps", "10"), &error), &error);
    assert_true(options.job.train.outer_learning_rate == 1);
    assert_true(options.job.train.outer_momentum == 0);
    assert_ok(parse(&options,
                    WORDS("--outer-momentum", "0", "--local-steps", "10", "--outer-lr", "1"),
                    &error),
              &error);
    assert_true(options.job.train.outer_learning_rate == 1.0);
    assert_true(options.job.train.outer_momentum == 0.0);
    assert_ok(parse(&options, WORDS("--local-steps", "1"), &error), &error);
    assert_true(options.job.train.outer_learning_rate == 0.0);
    assert_true(options.job.train.outer_momentum == 0.0);
    assert_false(proto_job_is_local(&options.job));
}

static void flags_reach_the_job(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options,
                    WORDS("--ranks=4", "--steps", "7", "--lr", "1e-3", "--lr-min", "1e-4",
                          "--schedule", "cosine", "--warmup", "3", "--timeout", "1.5",
                          "--join-timeout", "2", "--bucket-bytes", "4096", "--micro-batches", "2",
                          "--no-bind", "--eval", "--out", "/o/", "--loss-on", "all", "--clip", "0"),
                    &error),
              &error);
    assert_int_equal(options.job.job.world_size, 4);
    assert_int_equal(options.job.train.steps, 7);
    assert_true(options.job.train.learning_rate == 1e-3);
    assert_true(options.job.train.learning_rate_min == 1e-4);
    assert_int_equal(options.job.train.schedule, PROTO_SCHEDULE_COSINE);
    assert_int_equal(options.job.train.warmup_steps, 3);
    assert_int_equal(options.job.parallel.timeout_ms, 1500);
    assert_int_equal(options.job.parallel.join_timeout_ms, 2000);
    assert_int_equal(options.job.parallel.bucket_bytes, 4096);
    assert_int_equal(options.job.train.micro_batches, 2);
    assert_false(options.bind);
    assert_true(options.job.infer.eval);
    assert_string_equal(options.job.output.directory, "/o");
    assert_int_equal(options.job.data.loss_on, PROTO_LOSS_ON_ALL);
    assert_true(options.job.train.clip_norm == 0);
}

/* A day goes with what writes chats. */
static void a_chat_date_goes_with_chats(void **state)
{
    (void)state;
    static const struct {
        const char *words[8];
        const char *expected; /* NULL: it is taken */
    } cases[] = {
        {{"--mode", "generate", "--chat", "--prompt", "a", "--chat-date", "2026-11-30"}, NULL},
        {{"--mode", "tp-cpu", "--prompts", "-", "--chat-date", "2026-11-30"}, NULL},
        {{"--mode", "tp-cpu", "--serve", "127.0.0.1:0", "--chat-date", "2026-11-30"}, NULL},
        {{"--checkpoint", "/c", "--chat-date", "2026-11-30"}, NULL},
        {{"--mode", "pp-cpu", "--checkpoint", "/c", "--chat-date", "2026-11-30"}, NULL},
        {{"--mode", "generate", "--prompt", "a", "--chat-date", "2026-11-30"},
         "--chat-date goes with --chat, --serve and --prompts -"},
        {{"--chat-date", "2026-11-30"}, "--chat-date of a training goes with --checkpoint"},
        {{"--mode", "gate-check", "--chat-date", "2026-11-30"}, "--chat-date goes with modes"},
        {{"--chat-date", "tomorrow"}, "--chat-date: 'tomorrow': must be a day"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static launch_options options;
        base_error error = {.message = ""};
        const base_status status = parse(&options, cases[i].words, &error);
        if (cases[i].expected == NULL) {
            assert_ok(status, &error);
            assert_string_equal(options.job.data.chat_date, "2026-11-30T00:00");
        } else {
            assert_status(status, BASE_ERR_INVALID);
            assert_has(error.message, cases[i].expected);
        }
    }
}

static void relative_paths_become_absolute(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options, WORDS("--out", "here", "--log-dir", "logs"), &error), &error);
    assert_int_equal(options.job.output.directory[0], '/');
    assert_has(options.job.output.directory, "/here");
    assert_int_equal(options.log_dir[0], '/');
}

static void generate_takes_prompts(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(
        parse(&options, WORDS("--mode", "generate", "--prompt", "a b", "--prompt", "c"), &error),
        &error);
    assert_int_equal(options.prompt_count, 2);
    assert_string_equal(options.prompts[0], "a b");
    assert_string_equal(options.prompts[1], "c");
    assert_int_equal(options.job.job.world_size, 1);
    assert_ok(parse(&options, WORDS("--mode", "generate", "--eval", "--ranks", "2"), &error),
              &error);
    assert_int_equal(options.job.job.world_size, 2);
    assert_ok(parse(&options, WORDS("--mode", "generate", "--prompts", "/p.jsonl"), &error),
              &error);
    assert_string_equal(options.job.infer.prompts, "/p.jsonl");
    assert_status(
        parse(&options, WORDS("--mode", "generate", "--prompts", "/p", "--prompt", "a"), &error),
        BASE_ERR_INVALID);
    assert_status(parse(&options, WORDS("--prompts", "/p"), &error), BASE_ERR_INVALID);
    assert_status(parse(&options, WORDS("--mode", "generate"), &error), BASE_ERR_INVALID);
    assert_status(parse(&options, WORDS("--mode", "generate", "--prompt", "a\nb"), &error),
                  BASE_ERR_INVALID);
}

static void compare_takes_two(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options, WORDS("compare", "A", "B"), &error), &error);
    assert_int_equal(options.action, LAUNCH_ACTION_COMPARE);
    assert_string_equal(options.compare[0], "A");
    assert_string_equal(options.compare[1], "B");
    assert_status(parse(&options, WORDS("compare", "A"), &error), BASE_ERR_INVALID);
    assert_status(parse(&options, WORDS("compare", "A", "B", "C"), &error), BASE_ERR_INVALID);
}

/* One host's launcher would choose what the others load. */
static void several_hosts_have_their_own_libraries(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
#define SEVERAL                                                                                    \
    "--mode", "ddp-nccl", "--ranks", "2", "--nodes", "2", "--node-rank", "1", "--rendezvous",      \
        "tcp://127.0.0.1:4000", "--job-key", "/key"
    assert_ok(parse(&options, WORDS("--mode", "ddp-nccl", "--cuda-libs", "/cuda"), &error), &error);
    assert_ok(parse(&options, WORDS(SEVERAL), &error), &error);
    assert_status(parse(&options, WORDS(SEVERAL, "--cuda-libs", "/cuda"), &error),
                  BASE_ERR_INVALID);
    assert_has(error.message, "--cuda-libs is for one host: ");
}

/* Launchers that are started before and after midnight have the same flag, and the head's day counts. */
static void today_is_one_flag_on_all_hosts(void **state)
{
    (void)state;
    static launch_options options;
    static launch_options dated;
    base_error error;
    assert_ok(parse(&options, WORDS(SEVERAL, "--checkpoint", "/c", "--chat-date", "today"), &error),
              &error);
    const char *day = options.job.data.chat_date;
    assert_ok(parse(&dated, WORDS(SEVERAL, "--checkpoint", "/c", "--chat-date", day), &error),
              &error);
    assert_string_equal(dated.job.data.chat_date, day);
    assert_int_equal(strlen(day), strlen("2026-11-30T00:00"));
    assert_memory_not_equal(&options.hosts.flag_digests, &dated.hosts.flag_digests,
                            sizeof dated.hosts.flag_digests);
}
#undef SEVERAL

/* It would be another address on each host. */
static void a_link_local_rendezvous_is_refused(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_status(parse(&options,
                        WORDS("--nodes", "2", "--node-rank", "1", "--rendezvous",
                              "tcp://[fe80::1%eth0]:4000", "--job-key", "/key"),
                        &error),
                  BASE_ERR_INVALID);
    assert_has(error.message, "a link-local address is another one on each host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flags_give_the_default_job),
        cmocka_unit_test(mistyped_words_get_a_suggestion),
        cmocka_unit_test(other_names_are_of_our_options),
        cmocka_unit_test(flags_of_gpus_are_named_elsewhere),
        cmocka_unit_test(a_job_starts_again_only_where_it_can_go_on),
        cmocka_unit_test(fewer_hosts_go_on_where_bits_stay),
        cmocka_unit_test(inference_has_a_seed_of_its_own),
        cmocka_unit_test(buckets_are_larger_on_gpus),
        cmocka_unit_test(local_steps_have_an_outer_step),
        cmocka_unit_test(flags_reach_the_job),
        cmocka_unit_test(a_chat_date_goes_with_chats),
        cmocka_unit_test(relative_paths_become_absolute),
        cmocka_unit_test(generate_takes_prompts),
        cmocka_unit_test(compare_takes_two),
        cmocka_unit_test(several_hosts_have_their_own_libraries),
        cmocka_unit_test(today_is_one_flag_on_all_hosts),
        cmocka_unit_test(a_link_local_rendezvous_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
