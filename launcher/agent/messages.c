/* Handles what the head says: the job, its files and leases, the beginning and the end. Called by agent.c
 * for each message. */
#include <inttypes.h>
#include <stdio.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "budget/lease.h"
#include "engine/place.h"
#include "job/descriptors.h"
#include "job/processes.h"
#include "job/start_local.h"

/* Whether mpirun or srun shows the output of all launchers together, and ends all once one fails. */
static bool is_beside_head(const launch_agent *agent)
{
    return launch_engine_ends_others(agent->options->hosts.place.engine);
}

static base_status take_part(launch_agent *agent, const Ringfence__Control__Assign *assign,
                             base_error *reterr)
{
    static budget_keyring keyring; /* large; read to see that the ranks can */
    agent_part *part = &agent->part;
    base_status status = proto_job_parse(assign->job.data, assign->job.len, &part->job, reterr);
    if (status == BASE_OK) {
        status = launch_start_job_bytes(assign->job.data, assign->job.len, &agent->job_fd, reterr);
    }
    if (status == BASE_OK) {
        status = proto_job_resolve(&part->job, agent->options->root, reterr);
    }
    if (status == BASE_OK &&
        (part->job.job.mode == PROTO_MODE_PROGRAM) != (agent->options->program != NULL)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "the head's job is another: mode %s",
                           proto_mode_name(part->job.job.mode));
    }
    if (status == BASE_OK && part->job.gpu.libraries[0] != '\0') {
        /* the head does not say what code runs here: it could have sent that as a file */
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "the head's job names a directory of libraries, which is for one host: "
                           "%s",
                           part->job.gpu.libraries);
    }
    if (status == BASE_OK && proto_mode_costs_money(part->job.job.mode)) {
        /* the head does not say which keys this host trusts */
        status =
            launch_lease_find_keyring(&agent->options->budget, part->keyring, &keyring, reterr);
    }
    if (status == BASE_OK) {
        status = agent_files_open(agent, assign, reterr);
    }
    part->first_rank = (int)assign->first_rank;
    part->ranks = (int)assign->ranks;
    part->world_size = (int)assign->world_size;
    const char *own_ports = agent->options->hosts.ports;
    (void)snprintf(part->ports, sizeof part->ports, "%s",
                   own_ports[0] != '\0' ? own_ports : assign->ports);
    part->host_timeout_ns = assign->host_timeout_ms * BASE_NS_PER_MS;
    part->tried_again = assign->tried_again;
    part->may_leave = assign->may_leave;
    if (status == BASE_OK) {
        status = launch_descriptors_ensure(part->world_size, agent->options->hosts.nodes, reterr);
    }
    if (status == BASE_OK) {
        status = launch_processes_check(part->ranks, agent->options->program != NULL, reterr);
    }
    return status == BASE_OK ? agent_make_ranks(agent, reterr) : status;
}

static base_status handle_assign(launch_agent *agent, const Ringfence__Control__Assign *assign,
                                 base_error *reterr)
{
    base_fd_close(&agent->job_fd); /* of a head that was there before */
    agent_drop_ranks(agent);
    const base_status status = take_part(agent, assign, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!agent->options->quiet && !is_beside_head(agent)) {
        const agent_part *part = &agent->part;
        char last[24] = "";
        if (part->ranks > 1) {
            (void)snprintf(last, sizeof last, " to %d", part->first_rank + part->ranks - 1);
        }
        base_log(BASE_LOG_INFO, "joined run %s as node %" PRId64 ": %s %d%s of %d",
                 agent->bootstrap.run_id, agent->options->hosts.node_rank,
                 part->ranks > 1 ? "ranks" : "rank", part->first_rank, last, part->world_size);
    }
    agent->state = AGENT_FETCHING;
    return BASE_OK;
}

static void handle_wait(launch_agent *agent, const Ringfence__Control__Wait *wait)
{
    agent->part.host_timeout_ns = wait->host_timeout_ms * BASE_NS_PER_MS;
    agent->part.tried_again = true;
    agent->state = AGENT_WAITING;
    base_log(BASE_LOG_INFO, "the job runs on other hosts: this one waits, and may join the next "
                            "attempt");
}

static void handle_signal(launch_agent *agent, const Ringfence__Control__Signal *message)
{
    const int index = (int)message->rank - agent->part.first_rank;
    if (index >= 0 && index < agent->part.ranks) {
        agent_rank_signal(agent, index, (int)message->signal);
    }
}

static void handle_end(launch_agent *agent, const Ringfence__Control__End *end)
{
    if (end->again) {
        base_log(BASE_LOG_WARNING, "%s%s", end->reason,
                 agent->asked ? "" : "; this host joins again for the next attempt");
        agent_end_attempt(agent);
        return;
    }
    if (end->reason[0] != '\0' && !is_beside_head(agent)) {
        base_log(BASE_LOG_ERROR, "%s", end->reason);
    } else if (end->exit_code == 0 && !is_beside_head(agent) && !agent->options->quiet) {
        base_log(BASE_LOG_INFO, "run %s is done", agent->bootstrap.run_id);
    }
    /* where an engine ends all launchers once one fails, the head comes last, with its record */
    agent_end_ranks(agent, is_beside_head(agent) ? BASE_EXIT_DONE : (int)end->exit_code);
}

static void handle_refuse(launch_agent *agent, const Ringfence__Control__Refuse *refuse)
{
    if (refuse->for_now && agent->state == AGENT_ENROLLED) {
        agent_refused_for_now(agent, refuse->reason);
        return;
    }
    base_log(BASE_LOG_ERROR, "the head has refused this host: %s", refuse->reason);
    agent->refused = true;
    agent_end_ranks(agent, BASE_EXIT_USAGE);
}

/* What does not fit the agent's state is of before a change that the head did not know of yet. */
static base_status handle(launch_agent *agent, const envelope_type *envelope, base_error *reterr)
{
    const agent_state state = agent->state;
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE:
        handle_refuse(agent, envelope->refuse);
        return BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_END:
        handle_end(agent, envelope->end);
        return BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT:
        agent->taken_bytes = envelope->heartbeat->printed_bytes;
        return BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN:
        return state == AGENT_ENROLLED ? handle_assign(agent, envelope->assign, reterr) : BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_WAIT:
        if (state == AGENT_ENROLLED) {
            handle_wait(agent, envelope->wait);
        }
        return BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK:
        return state == AGENT_FETCHING ? agent_files_chunk(agent, envelope->chunk, reterr)
                                       : BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_LEASE:
        return state == AGENT_PREPARED ? agent_take_lease(agent, envelope->lease, reterr) : BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_BEGIN:
        return state == AGENT_PREPARED ? agent_start_ranks(agent, envelope->begin, reterr)
                                       : BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_SIGNAL:
        if (state == AGENT_RUNNING) {
            handle_signal(agent, envelope->signal);
        }
        return BASE_OK;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH:
        return state == AGENT_RUNNING ? agent_state_send(agent, envelope->fetch, reterr) : BASE_OK;
    default: /* proto_envelope_unpack refuses all others */
        return BASE_OK;
    }
}

void agent_handle(launch_agent *agent, const envelope_type *envelope)
{
    base_error error;
    agent->last_message_ns = base_now_ns();
    if (handle(agent, envelope, &error) != BASE_OK) {
        agent_give_up(agent, &error);
    }
}
