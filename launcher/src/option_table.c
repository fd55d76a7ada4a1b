#include "option_table.h"

#include <stdio.h>
#include <string.h>

#include "launch/options.h"

#define FIELD(flag, field, value_name, text)                                                       \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_FIELD, .key = (field), .value = (value_name),          \
        .help = (text)                                                                             \
    }
#define SHAPE(flag, field, text)                                                                   \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_FIELD, .what = LAUNCH_FLAG_SHAPE, .key = (field),      \
        .value = "N", .help = (text)                                                               \
    }
#define PATH(flag, field, value_name, text)                                                        \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_PATH, .key = (field), .value = (value_name),           \
        .help = (text)                                                                             \
    }
#define SWITCH(flag, which, text)                                                                  \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_SWITCH, .what = (which), .help = (text)                \
    }
#define OTHER(flag, which, value_name, text)                                                       \
    {                                                                                              \
        .name = (flag), .kind = (which), .value = (value_name), .help = (text)                     \
    }
/* The same flags for programs of the user's. */
#define ANY_FIELD(flag, field, value_name, text)                                                   \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_FIELD, .key = (field), .value = (value_name),          \
        .help = (text), .for_programs = true                                                       \
    }
#define ANY_SWITCH(flag, which, text)                                                              \
    {                                                                                              \
        .name = (flag), .kind = LAUNCH_KIND_SWITCH, .what = (which), .help = (text),               \
        .for_programs = true                                                                       \
    }
#define BUDGET(flag, which, member, value_name, text)                                              \
    {                                                                                              \
        .name = (flag), .kind = (which), .offset = offsetof(launch_budget_options, member),        \
        .size_bytes = sizeof(((launch_budget_options *)0)->member), .value = (value_name),         \
        .help = (text)                                                                             \
    }
#define GROUP(title) .group = (title)

static const launch_flag flags[] = {
    {.name = "ranks",
     .kind = LAUNCH_KIND_FIELD,
     .key = "world_size",
     .value = "N",
     .help = "processes (2; 1 for generate)",
     .for_programs = true,
     GROUP("The job")},
    ANY_FIELD("mode", "mode", "MODE",
              "ddp-cpu: train; generate: answer --prompt; gate-check (ddp-cpu)"),
    FIELD("seed", "seed", "N", "of the parameters and the data's order (35000)"),
    PATH("out", "out", "DIR", "where the record goes (experiments/35-ddp-cpu)"),
    SWITCH("overwrite", LAUNCH_FLAG_OVERWRITE,
           "replace the record that is there; else it is moved to DIR.1, DIR.2, ..."),
    PATH("checkpoint", "checkpoint", "DIR",
         "start from the model of an earlier run (generate: the default is --out)"),
    {.name = "prompt",
     .kind = LAUNCH_KIND_PROMPT,
     .value = "TEXT",
     .help = "generate: a sentence to correct; may be given again"},
    SWITCH("eval", LAUNCH_FLAG_EVAL, "at the end, exact-match accuracy on the held-out sentences"),
    FIELD("new-tokens", "new_tokens_max", "N", "generate: at most so many tokens a text (64)"),

    {.name = "data",
     .kind = LAUNCH_KIND_PATH,
     .key = "data",
     .value = "FILE",
     .help = "JSONL with a \"text\" field (the grammar corpus)",
     GROUP("Data")},
    PATH("heldout", "heldout", "FILE", "JSONL for --eval (the corpus's held-out sentences)"),
    PATH("tokenizer", "tokenizer", "FILE", "tokenizer.json (the corpus's)"),
    FIELD("loss-on", "loss_on", "WHAT", "correction: the right sentence only; all (correction)"),

    {.name = "width",
     .kind = LAUNCH_KIND_FIELD,
     .what = LAUNCH_FLAG_SHAPE,
     .key = "width",
     .value = "N",
     .help = "of the embedding (128)",
     GROUP("The model")},
    SHAPE("layers", "layers", "(2)"),
    SHAPE("heads", "heads", "attention heads (4)"),
    SHAPE("context", "context", "tokens a sentence may have (64)"),

    {.name = "steps",
     .kind = LAUNCH_KIND_FIELD,
     .key = "steps",
     .value = "N",
     .help = "(100)",
     GROUP("Training")},
    FIELD("batch", "batch", "N", "rows of --context tokens per rank and micro-batch (16)"),
    FIELD("micro-batches", "micro_batches", "N", "per rank and step (1)"),
    FIELD("lr", "learning_rate", "X", "learning rate (3e-4)"),
    FIELD("lr-min", "learning_rate_min", "X", "where the cosine ends (0)"),
    FIELD("schedule", "schedule", "NAME", "constant, cosine (constant)"),
    FIELD("warmup", "warmup_steps", "N", "steps of linear warm-up (0)"),
    FIELD("weight-decay", "weight_decay", "X", "(0.01)"),
    FIELD("beta1", "beta1", "X", "(0.9)"),
    FIELD("beta2", "beta2", "X", "(0.999)"),
    FIELD("clip", "clip_norm", "X", "largest norm of the gradient; 0: no clipping (1)"),

    {.name = "transport",
     .kind = LAUNCH_KIND_FIELD,
     .key = "transport",
     .value = "NAME",
     .for_programs = true,
     .help = "auto, shm, tcp, zmq (auto: shm inside a host, tcp between hosts)",
     GROUP("Parallelism")},
    ANY_FIELD("interface", "interface", "WHICH",
              "that tcp and zmq listen on: a name, an address, a network (10.0.0.0/8) or names to "
              "leave out (^docker0,lo) (that of the route to the launcher)"),
    ANY_FIELD("tcp-auth", "tcp_auth", "HOW",
              "protects frames: mac, encrypt, off (mac); zmq: off is plain"),
    ANY_FIELD("algorithm", "algorithm", "NAME",
              "auto, ring, tree, direct, recursive_doubling, halving_doubling, two_level"),
    FIELD("timing", "timing", "NAME",
          "overlapped: all-reduce during backward; bracketed: after it, bare (overlapped)"),
    FIELD("bucket-bytes", "bucket_bytes", "N", "of gradients in one all-reduce (524288)"),
    ANY_FIELD("threads-per-rank", "threads_per_rank", "N", "(1)"),
    ANY_SWITCH("no-bind", LAUNCH_FLAG_NO_BIND, "do not give each rank CPUs of its own"),
    {.name = "timeout",
     .kind = LAUNCH_KIND_SECONDS,
     .key = "timeout_ms",
     .for_programs = true,
     .value = "SECONDS",
     .help = "of one collective (300)"},
    {.name = "join-timeout",
     .kind = LAUNCH_KIND_SECONDS,
     .key = "join_timeout_ms",
     .for_programs = true,
     .value = "SECONDS",
     .help = "until all ranks have joined (30)"},

    {.name = "max-restarts",
     .kind = LAUNCH_KIND_RESTARTS,
     .value = "N",
     .help = "start a failed gate-check or program anew, so many times (0)",
     .for_programs = true},

    {.name = "token",
     .kind = LAUNCH_KIND_BUDGET_PATH,
     .offset = offsetof(launch_budget_options, token),
     .size_bytes = sizeof(((launch_budget_options *)0)->token),
     .value = "FILE",
     .help = "what budget-service has authorized",
     GROUP("Modes that may cost money")},
    BUDGET("authorize", LAUNCH_KIND_BUDGET_TEXT, authorize, "USD",
           "ask budget-service for a token now; local: 0.00 on this machine's own GPU"),
    BUDGET("account", LAUNCH_KIND_BUDGET_TEXT, account, "NAME", "which pays (the policy's)"),
    BUDGET("label", LAUNCH_KIND_BUDGET_TEXT, label, "NAME", "of the authorization (mode and time)"),
    BUDGET("vendor", LAUNCH_KIND_BUDGET_TEXT, vendor, "NAME", "(the policy's, as all of these)"),
    BUDGET("instance-type", LAUNCH_KIND_BUDGET_TEXT, instance_type, "NAME", ""),
    BUDGET("tier", LAUNCH_KIND_BUDGET_TEXT, tier, "NAME", ""),
    BUDGET("instances", LAUNCH_KIND_BUDGET_COUNT, instances, "N", ""),
    BUDGET("gpus", LAUNCH_KIND_BUDGET_COUNT, gpus, "N", "of one instance"),
    BUDGET("max-price", LAUNCH_KIND_BUDGET_PRICE, max_price_usd_micro, "USD",
           "per hour and instance"),
    BUDGET("max-hours", LAUNCH_KIND_BUDGET_HOURS, max_seconds, "HOURS",
           "(the policy's; local: 24)"),
    BUDGET("budget-dir", LAUNCH_KIND_BUDGET_PATH, dir, "DIR",
           "of the service ($BUDGET_SERVICE_DIR, or under $XDG_STATE_HOME)"),
    BUDGET("budget-key", LAUNCH_KIND_BUDGET_PATH, key, "FILE", "to ask with (DIR's request key)"),
    BUDGET("keyring", LAUNCH_KIND_BUDGET_PATH, keyring, "FILE",
           "to verify tokens with (DIR/keyring.json)"),
    BUDGET("receipts", LAUNCH_KIND_BUDGET_PATH, receipts, "DIR",
           "what budget-service redeem has fetched, where the service cannot be reached"),
    BUDGET("redeem", LAUNCH_KIND_BUDGET_REDEEM, redeem_by_ranks, "WHO",
           "launcher: for all ranks; ranks: each its own (launcher)"),

    {.name = "scaling",
     .kind = LAUNCH_KIND_SCALING,
     .value = "LIST",
     .help = "measure these numbers of ranks as well, as in 1,2,4 (1, from 50 steps on)",
     GROUP("What is measured, shown and written")},
    SWITCH("no-scaling", LAUNCH_FLAG_NO_SCALING, "measure nothing but the job itself"),
    SWITCH("no-plots", LAUNCH_FLAG_NO_PLOTS, "do not call gnuplot"),
    {.name = "log-dir",
     .kind = LAUNCH_KIND_LOG_DIR,
     .value = "DIR",
     .help = "each rank's output in DIR/rank-N.log as well",
     .for_programs = true},
    OTHER("write-job", LAUNCH_KIND_WRITE_JOB, "FILE", "write JOB.json there, and run nothing"),
    OTHER("job", LAUNCH_KIND_JOB, "FILE",
          "run exactly this JOB.json, data and checkpoint included"),
    ANY_SWITCH("dry-run", LAUNCH_FLAG_DRY_RUN, "print the plan, and run nothing"),
    ANY_SWITCH("quiet", LAUNCH_FLAG_QUIET, "no progress, no summary"),
    ANY_SWITCH("help", LAUNCH_FLAG_HELP, "this text"),
    ANY_SWITCH("version", LAUNCH_FLAG_VERSION, "the version"),
};
enum { FLAG_COUNT = sizeof flags / sizeof flags[0] };
_Static_assert((int)FLAG_COUNT <= (int)LAUNCH_FLAGS_MAX, "all flags fit getopt's table");

const launch_flag *launch_flags(int *count)
{
    *count = FLAG_COUNT;
    return flags;
}

void launch_options_help(FILE *stream)
{
    (void)fputs("Usage: launcher [--ranks N] [--mode ddp-cpu] [FLAGS]\n"
                "       launcher --mode generate --checkpoint DIR --prompt TEXT\n"
                "       launcher [--ranks N] [FLAGS] -- PROGRAM ARGUMENTS\n"
                "       launcher compare A B\n"
                "\n"
                "Starts a job's ranks on this computer, watches them, and writes the record of the "
                "run.\n"
                "PROGRAM is any program; one linked with libcoll finds its peers by itself.\n"
                "compare says whether two saved states are byte-equal, or where they differ.\n",
                stream);
    for (int i = 0; i < FLAG_COUNT; i++) {
        char left[64];
        if (flags[i].group != NULL) {
            (void)fprintf(stream, "\n%s (defaults in brackets):\n", flags[i].group);
        }
        (void)snprintf(left, sizeof left, "--%s%s%s", flags[i].name,
                       flags[i].value != NULL ? " " : "",
                       flags[i].value != NULL ? flags[i].value : "");
        (void)fprintf(stream, "  %-24s %s\n", left, flags[i].help);
    }
    (void)fputs(
        "\nExit status: 0 done; 1 an error; 2 wrong usage; 3 over a cap; 4 refused for another "
        "reason;\n5 nobody knows whether it was authorized; 6 a bad token; the first failing "
        "rank's code;\n128 + N when signal N ended a rank or the job.\n",
        stream);
}
