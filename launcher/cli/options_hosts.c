/* Checks --nodes and what goes with it, and takes the digest by which a head knows that an agent
 * was given the same job. Called by options.c. */
#include "cli/options_hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/option_table.h"
#include "job/address.h"

enum { FLAGS_BYTES_MAX = 512 * 1024 };

/* Collects what is digested. Each text ends with a NUL. */
typedef struct flag_text {
    char *bytes;
    size_t used_bytes;
    bool overflow;
} flag_text;

static void add(flag_text *text, const char *value)
{
    const size_t length = strlen(value) + 1;
    if (text->used_bytes + length > FLAGS_BYTES_MAX) {
        text->overflow = true;
        return;
    }
    memcpy(text->bytes + text->used_bytes, value, length);
    text->used_bytes += length;
}

/* The digest of every field of the job, the prompts and the program. */
static base_status digest_flags(launch_options *options, base_error *reterr)
{
    static char bytes[FLAGS_BYTES_MAX];
    flag_text text = {.bytes = bytes};
    char value[BASE_PATH_BYTES];
    for (int i = 0; i < proto_job_fields.count; i++) {
        const base_field *field = &proto_job_fields.rows[i];
        if ((field->marks & PROTO_FIELD_EACH_HOST) == 0) {
            base_field_format(field, &options->job, value, sizeof value);
            add(&text, value);
        }
    }
    for (int i = 0; i < options->prompt_count; i++) {
        add(&text, options->prompts[i]);
    }
    for (char *const *argument = options->program; argument != NULL && *argument != NULL;
         argument++) {
        add(&text, *argument);
    }
    if (text.overflow) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a command line of more than %d bytes",
                         FLAGS_BYTES_MAX);
    }
    proto_blake2b256(text.bytes, text.used_bytes, options->hosts.flags_digest);
    options->hosts.has_flags =
        options->job_flag != NULL || options->program != NULL || options->job_file[0] != '\0';
    return BASE_OK;
}

static base_status check_ranks(launch_options *options, base_error *reterr)
{
    const launch_hosts_options *hosts = &options->hosts;
    int64_t *world_size = &options->job.job.world_size;
    const bool given = options->ranks_given || options->job_file[0] != '\0';
    if (hosts->ranks_per_node > 0) {
        const int64_t ranks = hosts->nodes * hosts->ranks_per_node;
        if (ranks > BASE_RANKS_MAX || (given && ranks != *world_size)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "--ranks-per-node %" PRId64 " on %" PRId64 " hosts is %" PRId64
                             " ranks: the job has %" PRId64,
                             hosts->ranks_per_node, hosts->nodes, ranks,
                             given ? *world_size : (int64_t)BASE_RANKS_MAX);
        }
        *world_size = ranks;
        return BASE_OK;
    }
    if (!given) {
        *world_size = hosts->nodes;
    }
    return *world_size % hosts->nodes == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--ranks %" PRId64 " cannot be shared equally by %" PRId64 " hosts",
                           *world_size, hosts->nodes);
}

static base_status check_one_host(const launch_options *options, base_error *reterr)
{
    if (options->hosts_flag == NULL) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID, "--%s goes with --nodes of 2 or more",
                     options->hosts_flag);
}

static base_status check_alone(const launch_options *options, base_error *reterr)
{
    if (options->max_restarts > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--max-restarts is for one host: with --nodes, start all launchers again");
    }
    if (proto_mode_costs_money(options->job.job.mode)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--mode %s may cost money, and such modes run on one host: not with "
                         "--nodes",
                         proto_mode_name(options->job.job.mode));
    }
    if (options->scaling_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--scaling measures on one host: not with --nodes");
    }
    if (options->prompt_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--prompt makes a file on this host alone: with --nodes, --prompts FILE "
                         "names one that each host has");
    }
    if (options->hosts.node_rank > 0 && (options->dry_run || options->write_job[0] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID, "--%s is for node 0, which has the job",
                         options->dry_run ? "dry-run" : "write-job");
    }
    return BASE_OK;
}

base_status launch_options_check_hosts(launch_options *options, base_error *reterr)
{
    launch_hosts_options *hosts = &options->hosts;
    launch_address address;
    if (hosts->nodes == 1) {
        return check_one_host(options, reterr);
    }
    if (hosts->node_rank >= hosts->nodes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--node-rank %" PRId64 " of --nodes %" PRId64 ": from 0 to %" PRId64,
                         hosts->node_rank, hosts->nodes, hosts->nodes - 1);
    }
    if (hosts->rendezvous[0] == '\0' || hosts->job_key[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--nodes needs --rendezvous tcp://HOST:PORT, where node 0 listens, and "
                         "--job-key FILE (launcher make-job-key FILE makes one)");
    }
    base_status status = launch_address_parse(hosts->rendezvous, &address, reterr);
    if (status == BASE_OK) {
        status = check_alone(options, reterr);
    }
    if (status == BASE_OK) {
        status = check_ranks(options, reterr);
    }
    options->scaling = false;
    if (options->root[0] == '\0') {
        /* every path is below it, so a host can have the file elsewhere */
        (void)snprintf(options->root, sizeof options->root, "/");
    }
    return status == BASE_OK ? digest_flags(options, reterr) : status;
}
