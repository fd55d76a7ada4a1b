/* Finds this launcher's place among several, checks --nodes and what goes with it, and takes the
 * digests by which a head knows that an agent was given the same job. Called by options.c. */
#include "cli/options_hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/address.h"
#include "engine/place.h"
#include "engine/store.h"
#include "job/flag_digests.h"

static base_status digest_flags(launch_options *options, base_error *reterr)
{
    options->hosts.has_flags = options->job_flag != NULL || options->job_file[0] != '\0';
    return launch_flag_digests_take(options, reterr);
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

/* Under an engine, one launcher may be all there is: then it runs --ranks-per-node ranks, or one. */
static base_status check_one_host(launch_options *options, base_error *reterr)
{
    if (options->hosts.place.engine != LAUNCH_ENGINE_NONE) {
        return check_ranks(options, reterr);
    }
    if (options->hosts_flag == NULL) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID, "--%s goes with --nodes of 2 or more",
                     options->hosts_flag);
}

/* --min-nodes. Other hosts' launchers may have it, too. */
static base_status check_fewer(const launch_options *options, base_error *reterr)
{
    const launch_hosts_options *hosts = &options->hosts;
    if (hosts->min_nodes == 0 || hosts->node_rank > 0) {
        return BASE_OK;
    }
    if (hosts->min_nodes > hosts->nodes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--min-nodes %" PRId64 " is more than --nodes %" PRId64, hosts->min_nodes,
                         hosts->nodes);
    }
    if (options->program != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--min-nodes is for trainings: a program would have to know how to share "
                         "its work out anew");
    }
    return options->max_restarts > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--min-nodes goes with --max-restarts, --save-every and --resume");
}

static base_status check_alone(const launch_options *options, base_error *reterr)
{
    if (options->max_restarts > 0 && launch_engine_ends_others(options->hosts.place.engine)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--max-restarts does not go with %s, which ends all %" PRId64
                         " launchers as soon as one fails: %s",
                         launch_engine_name(options->hosts.place.engine), options->hosts.nodes,
                         launch_place_again(&options->hosts.place));
    }
    const base_status fewer = check_fewer(options, reterr);
    if (fewer != BASE_OK) {
        return fewer;
    }
    if (options->scaling_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--scaling measures on one host: not with --nodes");
    }
    if (options->job.gpu.libraries[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--cuda-libs is for one host: with --nodes each host's libraries are "
                         "found in cuda/ beside the program, or by the dynamic linker's cache");
    }
    if (options->hosts.node_rank > 0 && (options->dry_run || options->write_job[0] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID, "--%s is for node 0, which has the job",
                         options->dry_run ? "dry-run" : "write-job");
    }
    return BASE_OK;
}

static const char *variable(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

/* Opens the engine's store, which knows how many launchers there are. One alone does not need it. */
static base_status open_store(launch_options *options, base_error *reterr)
{
    launch_hosts_options *hosts = &options->hosts;
    const launch_store_kind *kind = launch_store_of(hosts->place.engine);
    const launch_wait wait = {.deadline_ns = base_deadline_after_ns(
                                  options->job.parallel.join_timeout_ms * BASE_NS_PER_MS),
                              .signal_fd = -1};
    int64_t nodes = 0;
    base_status status = kind->open(&hosts->place, &wait, &hosts->store, reterr);
    if (status == BASE_OK) {
        status = kind->size(hosts->store, &nodes, reterr);
    }
    if (status == BASE_OK && hosts->nodes_given && nodes != hosts->nodes) {
        status = base_fail(reterr, BASE_ERR_INVALID, "--nodes %" PRId64 ", but there are %" PRId64,
                           hosts->nodes, nodes);
    }
    if (status == BASE_OK && nodes > PROTO_NODES_MAX) {
        status = base_fail(reterr, BASE_ERR_LIMIT, "%" PRId64 " launchers, but at most %d can meet",
                           nodes, PROTO_NODES_MAX);
    }
    if (status == BASE_OK && (nodes == 1 || hosts->job_key[0] != '\0')) {
        kind->close(hosts->store);
        hosts->store = NULL;
    }
    hosts->place.nodes = nodes;
    if (status != BASE_OK && reterr != NULL) {
        status = base_error_prepend(reterr, status, "%s has started this launcher",
                                    launch_engine_name(hosts->place.engine));
        launch_engine_explain(hosts->place.engine, reterr);
    }
    return status;
}

static base_status find_place(launch_options *options, base_error *reterr)
{
    launch_hosts_options *hosts = &options->hosts;
    const launch_place_flags flags = {.nodes_given = hosts->nodes_given,
                                      .node_rank_given = hosts->node_rank_given,
                                      .nodes = hosts->nodes,
                                      .node_rank = hosts->node_rank};
    base_status status = launch_place_find(&flags, variable, NULL, &hosts->place, reterr);
    if (status == BASE_OK && launch_engine_has_store(hosts->place.engine)) {
        status = open_store(options, reterr);
    }
    hosts->nodes = hosts->place.nodes;
    hosts->node_rank = hosts->place.node;
    return status;
}

/* What launchers need to find each other. */
static base_status check_rendezvous(launch_hosts_options *hosts, base_error *reterr)
{
    launch_address address;
    const bool key = hosts->job_key[0] != '\0';
    const bool meets =
        launch_engine_has_store(hosts->place.engine) || hosts->place.engine == LAUNCH_ENGINE_SLURM;
    if (meets && !key && hosts->rendezvous[0] == '\0') {
        return BASE_OK;
    }
    if (hosts->rendezvous[0] == '\0') {
        (void)snprintf(hosts->rendezvous, sizeof hosts->rendezvous, "%s", hosts->place.rendezvous);
    }
    if (hosts->rendezvous[0] == '\0' || !key) {
        const bool meets_somewhere = hosts->rendezvous[0] != '\0';
        base_error error;
        (void)base_fail(&error, BASE_ERR_INVALID,
                        "%s %s that this is launcher %" PRId64 " of %" PRId64 ": that needs %s%s%s",
                        launch_engine_name(hosts->place.engine),
                        hosts->place.engine == LAUNCH_ENGINE_VARIABLES ? "say" : "says",
                        hosts->node_rank, hosts->nodes,
                        meets_somewhere ? "" : "--rendezvous tcp://HOST:PORT, where node 0 listens",
                        meets_somewhere || key ? "" : ", and ",
                        key ? "" : "--job-key FILE (launcher make-job-key FILE makes one)");
        launch_engine_explain(hosts->place.engine, &error);
        return base_fail(reterr, error.status, "%s", error.message);
    }
    return launch_address_parse(hosts->rendezvous, &address, reterr);
}

base_status launch_options_check_hosts(launch_options *options, base_error *reterr)
{
    launch_hosts_options *hosts = &options->hosts;
    base_status status = find_place(options, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (hosts->nodes == 1) {
        return check_one_host(options, reterr);
    }
    if (hosts->node_rank >= hosts->nodes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--node-rank %" PRId64 " of --nodes %" PRId64 ": from 0 to %" PRId64,
                         hosts->node_rank, hosts->nodes, hosts->nodes - 1);
    }
    status = check_rendezvous(hosts, reterr);
    if (status == BASE_OK) {
        status = check_alone(options, reterr);
    }
    if (status == BASE_OK) {
        status = check_ranks(options, reterr);
    }
    options->scaling = false;
    if (options->budget.instances == 0) {
        options->budget.instances = hosts->nodes;
    }
    if (options->root[0] == '\0') {
        /* every path is below it, so a host can have the file elsewhere */
        (void)snprintf(options->root, sizeof options->root, "/");
    }
    return status == BASE_OK ? digest_flags(options, reterr) : status;
}
