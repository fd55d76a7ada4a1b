/* The launcher's own options, one row each. cli/options.c reads command lines with them. The
 * options of the job's fields are in proto/src/job_fields.c. */
#include "cli/option_table.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/codings.h"
#include "launch/options.h"

enum { COUNT_MAX = 100000, LAUNCH_SERVE_DRAIN_MAX_MS = 3600 * 1000 };

static base_status add_prompt(const base_field *field, void *record, const char *value,
                              base_error *reterr)
{
    launch_options *options = record;
    (void)field;
    if (value[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "the prompt is empty");
    }
    json_t *text = json_string(value); /* NULL unless it is UTF-8 */
    json_decref(text);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "the prompt is not UTF-8");
    }
    if (strchr(value, '\n') != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a prompt with line breaks goes into a .jsonl of --prompts");
    }
    if (options->prompt_count == LAUNCH_PROMPTS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "given more than %d times: --prompts takes a file",
                         LAUNCH_PROMPTS_MAX);
    }
    options->prompts[options->prompt_count++] = value;
    return BASE_OK;
}

/* A file, or "-" for requests that come while the job runs. */
static base_status set_prompts(const base_field *field, void *record, const char *value,
                               base_error *reterr)
{
    launch_options *options = record;
    (void)field;
    if (strcmp(value, "-") == 0) {
        options->standard_input = true;
        options->job.infer.requests = true;
        return BASE_OK;
    }
    return base_field_set(base_fields_find(&proto_job_fields, "infer.prompts"), &options->job,
                          value, reterr);
}

static base_status set_serve(const base_field *field, void *record, const char *value,
                             base_error *reterr)
{
    launch_options *options = record;
    (void)field;
    if (value[0] == '\0' || strlen(value) >= sizeof options->serve) {
        return base_fail(reterr, BASE_ERR_INVALID, "must be HOST:PORT");
    }
    (void)snprintf(options->serve, sizeof options->serve, "%s", value);
    options->job.infer.requests = true;
    options->job.infer.unrecorded = true;
    return BASE_OK;
}

static base_status set_logprobs(const base_field *field, void *record, const char *value,
                                base_error *reterr)
{
    launch_options *options = record;
    char *end = NULL;
    const long best = strtol(value, &end, 10);
    (void)field;
    if (end == value || *end != '\0' || best < 0 || best >= PROTO_LOGPROBS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be an integer from 0 to %d", value,
                         PROTO_LOGPROBS_MAX - 1);
    }
    options->job.infer.logprob_count = 1 + best;
    return BASE_OK;
}

static base_status set_chat_date(const base_field *field, void *record, const char *value,
                                 base_error *reterr)
{
    launch_options *options = record;
    (void)field;
    char *date = options->job.data.chat_date;
    const base_status status = proto_chat_date_resolve(value, date, reterr);
    if (status == BASE_OK && strcmp(value, "today") == 0) {
        memcpy(date, value, sizeof "today"); /* until launch_options_parse is done */
    }
    return status;
}

static base_status set_ports(const base_field *field, void *record, const char *value,
                             base_error *reterr)
{
    launch_options *options = record;
    base_ports ports;
    (void)field;
    if (value[0] == '\0' || !base_ports_parse(value, &ports)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%s': must be two ports from 1 to 65535, as in 29500-29599", value);
    }
    (void)snprintf(options->hosts.ports, sizeof options->hosts.ports, "%s", value);
    return BASE_OK;
}

/* Reads numbers of ranks: "1,2,4". */
static base_status set_scaling(const base_field *field, void *record, const char *value,
                               base_error *reterr)
{
    launch_options *options = record;
    (void)field;
    const char *at = value;
    options->scaling_count = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        const long ranks = strtol(at, &end, 10);
        if (end == at || errno != 0 || ranks < 1 || ranks > BASE_RANKS_MAX ||
            (*end != ',' && *end != '\0')) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "'%s': must be numbers of ranks from 1 to %d, as in 1,2,4", value,
                             BASE_RANKS_MAX);
        }
        if (options->scaling_count == LAUNCH_SCALING_POINTS_MAX) {
            return base_fail(reterr, BASE_ERR_LIMIT, "more than %d numbers",
                             LAUNCH_SCALING_POINTS_MAX);
        }
        options->scaling_ranks[options->scaling_count++] = (int)ranks;
        if (*end == '\0') {
            return BASE_OK;
        }
        at = end + 1;
    }
}

static base_status set_action(const base_field *field, void *record, const char *value,
                              base_error *reterr)
{
    launch_options *options = record;
    (void)value;
    (void)reterr;
    options->action =
        strcmp(field->option, "help") == 0 ? LAUNCH_ACTION_HELP : LAUNCH_ACTION_VERSION;
    return BASE_OK;
}

static const char *stream_name(int value)
{
    static const char *const names[] = {"text", "json"};
    return value >= 0 && value < 2 ? names[value] : NULL;
}

#define OWN(kind, member)    BASE_##kind(launch_options, member)
#define BUDGET(kind, member) BASE_##kind(launch_options, budget.member), .marks = LAUNCH_MARK_BUDGET
#define CALL(function)       .kind = BASE_FIELD_CALL, .call = (function)
#define ANY                  .marks = PROTO_FIELD_PROGRAM
#define HOSTS(kind, member)                                                                        \
    BASE_##kind(launch_options, hosts.member), .marks = LAUNCH_MARK_HOSTS | PROTO_FIELD_PROGRAM

static const base_field rows[] = {
    {OWN(BOOL, overwrite), .marks = PROTO_FIELD_RECORDS, .option = "overwrite", .group = "The job",
     .help = "trainings: replace the record that is there; else it is moved to DIR.1, DIR.2, ..."},
    {CALL(add_prompt), .option = "prompt", .value = "TEXT",
     .marks = LAUNCH_MARK_JOB | PROTO_FIELD_ANSWERS,
     .help = "generate, tp-*: a sentence to correct; may be given again"},
    {CALL(set_prompts), .option = "prompts", .value = "FILE",
     .marks = LAUNCH_MARK_JOB | PROTO_FIELD_ANSWERS,
     .help = "generate, tp-*: sentences to correct, one a line; of FILE.jsonl, FILE.ndjson and "
             "FILE.json in a \"prompt\" field; tp-*: - takes them from standard input while the "
             "job runs"},
    {CALL(set_logprobs), .option = "logprobs", .value = "N",
     .marks = LAUNCH_MARK_JOB | PROTO_FIELD_ANSWERS,
     .help = "tp-*: in results.json and with --stream json; generate: in a line of JSON for each "
             "text: each token's log-probability, and those of the N most probable ones, 0 to 20"},
    {CALL(set_chat_date), .option = "chat-date", .value = "DATE",
     .marks = LAUNCH_MARK_JOB | PROTO_FIELD_TRAINS | PROTO_FIELD_ANSWERS,
     .help = "chat templates that ask for the day get this one, as in 2026-11-30 or "
             "2026-11-30T09:05, or today, in UTC (none)"},
    {OWN(ENUM, stream), .name_of = stream_name, .option = "stream", .value = "HOW",
     .help = "with --prompts -: text: a line for each whole text; json: a line for each event"},

    {CALL(set_serve), .marks = LAUNCH_MARK_JOB | PROTO_FIELD_TENSOR_PARALLEL, .option = "serve",
     .value = "HOST:PORT", .group = "Serving over HTTP",
     .help =
         "tp-*: answer HTTP requests in OpenAI's format while the job runs; port 0: a free one"},
    {OWN(PATH, serve_key_file), .option = "serve-key-file", .value = "FILE",
     .help = "the key that clients must send: needed if HOST is not this computer's own"},
    {OWN(BOOL, serve_open), .option = "serve-open",
     .help = "no key, although other hosts can connect"},
    {OWN(TEXT, serve_origin), .filled = true, .option = "serve-origin", .value = "ORIGIN",
     .help = "pages of this origin may ask, as http://localhost:3000, or of any: * (none)"},
    {OWN(TEXT, served_model_name), .filled = true, .option = "served-model-name", .value = "NAME",
     .help =
         "what clients call the model (the last part of the path of --adapter or --checkpoint)"},
    {OWN(SECONDS, serve_drain_ms), .least = 1000, .most = LAUNCH_SERVE_DRAIN_MAX_MS,
     .optional = true, .option = "serve-drain", .value = "SECONDS",
     .help = "what runs may go on so long after Ctrl-C or SIGTERM (30)"},

    {OWN(BOOL, bind), ANY, .option = "no-bind", .off = true, .group = "Parallelism",
     .help = "do not give each rank CPUs of its own, or in *-nccl modes those near its GPU"},
    {OWN(INT, max_restarts), ANY, .least = 0, .most = LAUNCH_RESTARTS_MAX, .option = "max-restarts",
     .value = "N",
     .help = "start a failed job again, so many times: a training with --save-every and "
             "--resume, gate-check, a program"},

    {HOSTS(INT, nodes), .least = 1, .most = PROTO_NODES_MAX, .option = "nodes", .value = "N",
     .group = "Several hosts", .help = "launchers, one for each host, with the same flags"},
    {HOSTS(INT, node_rank), .least = 0, .most = PROTO_NODES_MAX - 1, .option = "node-rank",
     .value = "K", .help = "of this one: 0 is the head, the others take the job from it"},
    {HOSTS(TEXT, rendezvous), .filled = true, .option = "rendezvous", .value = "tcp://HOST:PORT",
     .help = "where the head listens"},
    {HOSTS(PATH, job_key), .option = "job-key", .value = "FILE",
     .help = "of launcher make-job-key; each host has a copy"},
    {HOSTS(INT, ranks_per_node), .least = 1, .most = BASE_RANKS_MAX, .optional = true,
     .option = "ranks-per-node", .value = "N", .help = "in place of --ranks, which counts all"},
    {HOSTS(INT, min_nodes), .least = 1, .most = PROTO_NODES_MAX, .optional = true,
     .option = "min-nodes", .value = "M",
     .help = "with --max-restarts: where hosts do not come, go on with those that do, M at least, "
             "and with the same bits (all)"},
    {HOSTS(SECONDS, host_timeout_ms), .least = LAUNCH_HOST_TIMEOUT_MIN_MS,
     .most = PROTO_HOST_TIMEOUT_MAX_MS, .option = "host-timeout", .value = "SECONDS",
     .help = "a host that says nothing so long is lost"},
    {CALL(set_ports), .marks = LAUNCH_MARK_HOSTS | PROTO_FIELD_PROGRAM, .option = "listen-ports",
     .value = "LOW-HIGH",
     .help = "where ranks listen, and the head for them: for firewalls (any port)"},
    {HOSTS(PATH, cache), .option = "cache", .value = "DIR",
     .help = "where other hosts than the head's keep files that they fetch from it "
             "($XDG_CACHE_HOME/ringfence)"},

    {BUDGET(PATH, token), .option = "token", .value = "FILE", .group = "Modes that may cost money",
     .help = "what budget-service has authorized"},
    {BUDGET(TEXT, authorize), .filled = true, .option = "authorize", .value = "USD",
     .help = "ask budget-service for a token now; local: 0.00 on this machine's own GPU"},
    {BUDGET(TEXT, account), .filled = true, .option = "account", .value = "NAME",
     .help = "which pays (the policy's)"},
    {BUDGET(TEXT, label), .filled = true, .option = "label", .value = "NAME",
     .help = "of the authorization (mode and time)"},
    {BUDGET(TEXT, vendor), .filled = true, .option = "vendor", .value = "NAME",
     .help = "(the policy's, as all of these)"},
    {BUDGET(TEXT, instance_type), .filled = true, .option = "instance-type", .value = "NAME",
     .help = ""},
    {BUDGET(TEXT, tier), .filled = true, .option = "tier", .value = "NAME", .help = ""},
    {BUDGET(INT, instances), .least = 1, .most = COUNT_MAX, .optional = true, .option = "instances",
     .value = "N", .help = ""},
    {BUDGET(INT, gpus), .least = 1, .most = COUNT_MAX, .optional = true, .option = "gpus",
     .value = "N", .help = "of one instance"},
    {BUDGET(CODED, max_price_usd_micro), .coding = &budget_price_coding, .optional = true,
     .option = "max-price", .value = "USD", .help = "per hour and instance"},
    {BUDGET(CODED, max_seconds), .coding = &budget_hours_coding, .optional = true,
     .option = "max-hours", .value = "HOURS", .help = "(the policy's; local: 24)"},
    {BUDGET(PATH, dir), .option = "budget-dir", .value = "DIR",
     .help = "of the service ($BUDGET_SERVICE_DIR, or under $XDG_STATE_HOME)"},
    {BUDGET(PATH, key), .option = "budget-key", .value = "FILE",
     .help = "to ask with (DIR's request key)"},
    {BUDGET(PATH, keyring), .option = "keyring", .value = "FILE",
     .help = "to verify tokens with (DIR/keyring.json)"},
    {BUDGET(PATH, receipts), .option = "receipts", .value = "DIR",
     .help = "what budget-service redeem has fetched, where the service cannot be reached"},

    {CALL(set_scaling), .marks = PROTO_FIELD_TRAINS, .option = "scaling", .value = "LIST",
     .group = "What is measured, shown and written",
     .help = "measure these numbers of ranks as well, as in 1,2,4 (1, from 50 steps on)"},
    {OWN(BOOL, scaling), .option = "no-scaling", .off = true,
     .help = "measure nothing but the job itself"},
    {OWN(PATH, log_dir), ANY, .option = "log-dir", .value = "DIR",
     .help = "each rank's output in DIR/rank-N.log as well"},
    {OWN(PATH, root), .option = "root", .value = "DIR",
     .help = "JOB.json names what is below DIR by its path from there, so that another host can "
             "have it elsewhere"},
    {OWN(PATH, write_job), .option = "write-job", .value = "FILE",
     .help = "write JOB.json there, and run nothing"},
    {OWN(PATH, job_file), .option = "job", .value = "FILE",
     .help = "run exactly this JOB.json, data and checkpoint included"},
    {OWN(BOOL, json), .option = "json", .help = "gpus: as JSON"},
    {OWN(BOOL, dry_run), ANY, .option = "dry-run", .help = "print the plan, and run nothing"},
    {OWN(BOOL, quiet), ANY, .option = "quiet", .help = "no progress, no summary"},
    {CALL(set_action), ANY, .option = "help", .letter = 'h', .help = "this text"},
    {CALL(set_action), ANY, .option = "version", .help = "the version"},
};

const base_fields launch_option_fields = {
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .what = "launcher",
};

void launch_options_defaults(launch_options *options)
{
    *options = (launch_options){.bind = true,
                                .scaling = true,
                                .hosts = {.nodes = 1, .host_timeout_ms = LAUNCH_HOST_TIMEOUT_MS}};
    proto_job_defaults(&options->job);
}

void launch_options_help(FILE *stream)
{
    static launch_options defaults;
    launch_options_defaults(&defaults);
    const base_option_set sets[] = {
        {.fields = &proto_job_fields, .defaults = &defaults.job},
        {.fields = &launch_option_fields, .defaults = &defaults},
    };
    (void)fputs(
        "Usage: launcher [--ranks N] [--mode ddp-cpu] [FLAGS]\n"
        "       launcher --mode generate --checkpoint DIR --prompt TEXT\n"
        "       launcher --ranks N --mode tp-cpu --checkpoint DIR --prompts FILE\n"
        "       launcher --ranks N --mode ddp-nccl|tp-nccl --token FILE [FLAGS]\n"
        "       launcher [--ranks N] [FLAGS] -- PROGRAM ARGUMENTS\n"
        "       launcher plan [--help]\n"
        "       launcher compare A B\n"
        "       launcher gpus [--json]\n"
        "       launcher make-job-key FILE\n"
        "       launcher --nodes N --node-rank K --rendezvous tcp://HOST:PORT --job-key FILE"
        " [FLAGS]\n"
        "\n"
        "Starts a job's ranks on this computer, watches them, and writes the record of the "
        "run.\n"
        "PROGRAM is any program; one linked with libcoll finds its peers by itself.\n"
        "plan says beforehand what a model needs on some ranks: memory, exchanges, time, "
        "money.\n"
        "compare says whether two saved states are byte-equal, or where they differ; of two "
        "checkpoints, with the moments.\n"
        "gpus lists this computer's GPUs, what stands between them, who uses them, and their "
        "state.\n"
        "With --nodes, several launchers run one job, each its ranks on its own host.\n"
        "Under mpirun, srun or torchrun, each launcher finds its place among them by itself.\n"
        "\n"
        "Defaults are in brackets.\n",
        stream);
    base_options_help(sets, sizeof sets / sizeof sets[0], stream);
    (void)fputs(
        "\nExit status: 0 done; 1 an error; 2 wrong usage; 3 over a cap; 4 refused for another "
        "reason;\n5 it is not known whether it was authorized; 6 a bad token; 9 no GPU; the first "
        "failing rank's\ncode; 128 + N when signal N ended a rank or the job.\n",
        stream);
}
