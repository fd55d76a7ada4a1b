/* launch/options.h: a flag, or a member of a job's file, goes with the modes that use it. */
#include <stdlib.h>

#include "base/file.h"
#include "job_set.h"
#include "words.h"

#define TRAINS     "modes that train (ddp-cpu, ddp-nccl, pp-cpu)"
#define ANSWER     "modes that answer (generate, tp-cpu, tp-nccl)"
#define TP         "tensor parallel modes (tp-cpu, tp-nccl)"
#define OF_WINDOWS ": all tokens of a window are targets"
#define OWN_DATA                                                                                   \
    "--eval and --eval-every of a training with --data need --heldout FILE: the corpus's "         \
    "held-out sentences are "                                                                      \
    "for the corpus"
#define ASKED "--mode", "generate", "--prompt", "a"

/* What a mode would not use is refused, by the name of the flag that was given. */
static const struct {
    const char *const *words;
    const char *message; /* NULL: it is accepted */
} flags_of_modes[] = {
    {WORDS("--temperature", "1", "--eval"), "--temperature goes with " ANSWER},
    {WORDS("--top-k", "5"), "--top-k goes with " ANSWER},
    {WORDS("--top-p", "1"), "--top-p goes with " ANSWER},
    {WORDS("--sampling-seed", "5", "--mode", "pp-cpu"), "--sampling-seed goes with " ANSWER},
    {WORDS("--ignore-eos"), "--ignore-eos goes with " ANSWER},
    {WORDS("--special-tokens"), "--special-tokens goes with " ANSWER},
    {WORDS("--prompts", "/p", "--steps", "1"), "--prompts goes with " ANSWER},
    {WORDS("--prompt", "a", "--steps", "1"), "--prompt goes with " ANSWER},
    {WORDS("--mode", "generate", "--prompt", ""), "--prompt: the prompt is empty"},
    {WORDS("--mode", "generate", "--prompt", "caf\xe9"), "--prompt: the prompt is not UTF-8"},
    {WORDS("--mode", "generate", "--prompt", "a\nb"),
     "--prompt: a prompt with line breaks goes into a .jsonl of --prompts"},
    {WORDS("--prompts", "-", "--mode", "gate-check"), "--prompts goes with " ANSWER},
    {WORDS("--serve", "127.0.0.1:0", "--steps", "1"), "--serve goes with " TP},
    {WORDS("--mode", "generate", "--serve", "127.0.0.1:0"), "--serve goes with " TP},
    {WORDS("--mode", "tp-cpu", "--serve", "127.0.0.1:0"), NULL},
    {WORDS("--max-new-tokens", "5"), "--max-new-tokens goes with " ANSWER ", or with --eval"},
    {WORDS("--max-num-seqs", "5"), "--max-num-seqs goes with " ANSWER ", or with --eval"},
    {WORDS("--max-num-seqs", "5", "--max-new-tokens", "5", "--eval"), NULL},
    {WORDS("--max-num-seqs", "5", ASKED), NULL},
    {WORDS("--cache-tokens", "500", ASKED), NULL},
    {WORDS("--cache-tokens", "500", "--eval"), "--cache-tokens goes with " ANSWER},
    {WORDS("--heldout", "/h"), "--heldout goes with --eval"},
    {WORDS("--heldout", "/h", ASKED), "--heldout goes with --eval"},
    {WORDS("--heldout", "/h", "--eval-every", "0"), "--heldout goes with --eval"},
    {WORDS("--heldout", "/h", "--eval"), NULL},
    {WORDS("--heldout", "/h", "--eval-every", "5"), NULL},
    {WORDS("--heldout", "/h", "--eval", ASKED), NULL},
    {WORDS("--data", "/d", "--eval"), OWN_DATA},
    {WORDS("--data", "/d.jsonl", "--loss-on", "correction"), NULL},
    {WORDS("--data", "/d.jsonl", "--loss-on", "correction", "--windows"),
     "--loss-on correction does not go with --windows" OF_WINDOWS},
    {WORDS("--data", "/d.jsonl", "--loss-on", "all", "--windows"), NULL},
    {WORDS("--data", "/d.txt", "--loss-on", "correction"),
     "--loss-on correction does not go with a plain text" OF_WINDOWS},
    {WORDS("--data", "/d.txt", "--loss-on", "all"), NULL},
    {WORDS("--data", "/d", "--eval-every", "5"), OWN_DATA},
    {WORDS("--data", "/d", "--heldout", "/h", "--eval-every", "5"), NULL},
    {WORDS("--eval-every", "5", "--patience", "3"), NULL},
    {WORDS("--eval-every", "5", "--keep-best"), NULL},
    {WORDS("--save-dtype", "bfloat16"), NULL},
    {WORDS("--save-dtype", "bfloat16", ASKED), "--save-dtype goes with " TRAINS},
    {WORDS("--keep-best", ASKED), "--keep-best goes with " TRAINS},
    {WORDS("--patience", "3", ASKED), "--patience goes with " TRAINS},
    {WORDS("--eval", "--mode", "gate-check"), "--eval goes with " TRAINS ", or with " ANSWER},
    {WORDS("--lr-min", "0"), "--lr-min goes with --schedule cosine or linear"},
    {WORDS("--lr-min", "0", "--schedule", "cosine"), NULL},
    {WORDS("--lr-min", "0", "--schedule", "linear"), NULL},
    {WORDS("--json"), "--json goes with launcher gpus and plan"},
    {WORDS("--steps", "5", ASKED), "--steps goes with " TRAINS},
    {WORDS(ASKED, "--lr", "1"), "--lr goes with " TRAINS},
    {WORDS(ASKED, "--batch", "1"), "--batch goes with " TRAINS},
    {WORDS(ASKED, "--micro-batches", "1"), "--micro-batches goes with " TRAINS},
    {WORDS(ASKED, "--schedule", "cosine"), "--schedule goes with " TRAINS},
    {WORDS(ASKED, "--warmup", "1"), "--warmup goes with " TRAINS},
    {WORDS(ASKED, "--weight-decay", "1"), "--weight-decay goes with " TRAINS},
    {WORDS(ASKED, "--beta1", "0"), "--beta1 goes with " TRAINS},
    {WORDS(ASKED, "--beta2", "0"), "--beta2 goes with " TRAINS},
    {WORDS(ASKED, "--clip", "1"), "--clip goes with " TRAINS},
    {WORDS(ASKED, "--dropout", "0.1"), "--dropout goes with " TRAINS},
    {WORDS("--dropout", "0.1"), NULL},
    {WORDS(ASKED, "--optimizer", "muon"), "--optimizer goes with " TRAINS},
    {WORDS(ASKED, "--muon-momentum", "0.9"), "--muon-momentum goes with " TRAINS},
    {WORDS("--mode", "pp-cpu", "--dropout", "0.1"), NULL},
    {WORDS(ASKED, "--data", "/d"), "--data goes with " TRAINS},
    {WORDS(ASKED, "--scaling", "1"), "--scaling goes with " TRAINS},
    {WORDS(ASKED, "--eval-every", "1"), "--eval-every goes with " TRAINS},
    {WORDS(ASKED, "--timing", "bracketed"),
     "--timing goes with data parallel modes (ddp-cpu, ddp-nccl)"},
    {WORDS("--mode", "pp-cpu", "--bucket-bytes", "5000"),
     "--bucket-bytes goes with data parallel modes (ddp-cpu, ddp-nccl), or with several pipelines "
     "(pp-cpu)"},
    {WORDS("--mode", "pp-cpu", "--ranks", "4", "--layers", "2", "--stages", "2", "--bucket-bytes",
           "5000"),
     NULL},
    {WORDS("--mode", "gate-check", "--overwrite"),
     "--overwrite goes with modes that leave a record (ddp-cpu, generate, tp-cpu, ddp-nccl, "
     "tp-nccl, pp-cpu)"},
    {WORDS("--mode", "gate-check", "--trace", "1"),
     "--trace goes with modes whose steps are traced (ddp-cpu, generate, tp-cpu, pp-cpu)"},
    {WORDS("--mode", "tp-cpu", "--eval", "--overwrite"), NULL},
    {WORDS(ASKED, "--seed", "1", "--loss-on", "all", "--context", "5", "--tokenizer", "/t",
           "--timeout", "5", "--quiet", "--no-scaling", "--threads-per-rank", "2", "--out", "/o",
           "--transport", "tcp"),
     NULL},
    {WORDS("--draft", "/d"), "--draft goes with modes on CPUs that answer (generate, tp-cpu)"},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--speculate", "2", "--algorithm", "ring"),
     "--speculate does not go with --algorithm ring: a token's bits may depend on the rows beside "
     "it"},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--speculate", "2", "--algorithm", "tree"),
     "--speculate does not go with --algorithm tree: a token's bits may depend on the rows beside "
     "it"},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--algorithm", "ring"), NULL},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--logprobs", "0"), NULL},
    {WORDS("--mode", "tp-cpu", "--prompts", "-", "--logprobs", "20"), NULL},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--logprobs", "21"),
     "--logprobs: '21': must be an integer from 0 to 20"},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--logprobs", "-1"),
     "--logprobs: '-1': must be an integer from 0 to 20"},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--logprobs", "1x"),
     "--logprobs: '1x': must be an integer from 0 to 20"},
    {WORDS("--mode", "tp-cpu", "--serve", "127.0.0.1:0", "--logprobs", "1"),
     "--logprobs goes with --prompt and --prompts: a server's clients ask for them in their "
     "requests"},
    {WORDS("--mode", "generate", "--prompt", "a", "--logprobs", "1"), NULL},
    {WORDS("--logprobs", "1"), "--logprobs goes with " ANSWER},
    {WORDS("--mode", "tp-cpu", "--prompt", "a", "--speculate", "2", "--algorithm", "two_level"),
     NULL},
    {WORDS("compare", "--json", "A", "B"), "compare does not take --json"},
    {WORDS("gpus", "--quiet"), "gpus does not take --quiet"},
    {WORDS("make-job-key", "K", "--ranks", "2"), "make-job-key does not take --ranks"},
    {WORDS("gpus", "--json"), NULL},
};

static void a_flag_goes_with_the_modes_that_use_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof flags_of_modes / sizeof flags_of_modes[0]; i++) {
        assert_refused(flags_of_modes[i].words, flags_of_modes[i].message);
    }
}

/* A file may ask for what no command line could have written. */
static void a_file_does_not_ask_a_mode_for_what_it_does_not_do(void **state)
{
    (void)state;
    static launch_options options;
    static const struct {
        const char *mode;
        const char *key;
        const char *value;
        const char *says;
    } cases[] = {
        {"tp-cpu", "train.save_every", "5",
         "train.save_every goes with modes that train: mode tp-cpu does not"},
        {"generate", "train.resume", "true",
         "train.resume goes with modes that train: mode generate does not"},
        {"tp-cpu", "train.recompute", "true",
         "train.recompute goes with modes that train: mode tp-cpu does not"},
        {"tp-cpu", "train.dropout", "0.1",
         "train.dropout goes with modes that train: mode tp-cpu does not"},
        {"ddp-cpu", "infer.prompts", "/p",
         "infer.prompts goes with modes that answer: mode ddp-cpu does not"},
    };
    const char *path = test_shared_path("JOB.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        proto_job job;
        char *text = NULL;
        size_t text_bytes = 0;
        proto_job_defaults(&job);
        assert_ok(test_job_set(&job, "job.mode", cases[i].mode, &error), &error);
        assert_ok(test_job_set(&job, cases[i].key, cases[i].value, &error), &error);
        assert_ok(proto_job_write(&job, "", &text, &text_bytes, &error), &error);
        assert_ok(base_file_write(path, text, text_bytes, &error), &error);
        free(text);
        assert_status(parse(&options, WORDS("--job", path), &error), BASE_ERR_INVALID);
        assert_has(error.message, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_goes_with_the_modes_that_use_it),
        TEST_IN_DIRECTORY(a_file_does_not_ask_a_mode_for_what_it_does_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
