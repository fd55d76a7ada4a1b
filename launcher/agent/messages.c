/* Handles what the head says: the job, its files and leases, the beginning and the end. Called by agent.c
 * for each message. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "budget/lease.h"
#include "engine/place.h"
#include "job/descriptors.h"
#include "job/processes.h"
#include "job/start_local.h"

enum { NO_FD = -1 };

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

static void handle_assign(launch_agent *agent, const Ringfence__Control__Assign *assign)
{
    base_error error;
    if (agent->job_fd >= 0) {
        (void)close(agent->job_fd); /* of a head that was there before */
        agent->job_fd = NO_FD;
    }
    agent_drop_ranks(agent);
    if (take_part(agent, assign, &error) != BASE_OK) {
        agent_give_up(agent, &error);
        return;
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
}

static void handle_wait(launch_agent *agent, const Ringfence__Control__Wait *wait)
{
    agent->part.host_timeout_ns = wait->host_timeout_ms * BASE_NS_PER_MS;
    agent->part.tried_again = true;
    agent->state = AGENT_WAITING;
    base_log(BASE_LOG_INFO, "the job runs on other hosts: this one waits, and may join the next "
                            "attempt");
}

static void handle_lease(launch_agent *agent, const Ringfence__Control__Lease *lease)
{
    base_error error;
    if (agent_take_lease(agent, lease, &error) != BASE_OK) {
        agent_give_up(agent, &error);
    }
}

static void handle_begin(launch_agent *agent, const Ringfence__Control__Begin *begin)
{
    base_error error;
    agent->state = AGENT_RUNNING;
    if (agent_start_ranks(agent, begin, &error) != BASE_OK) {
        agent_give_up(agent, &error);
    }
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

static void handle_chunk(launch_agent *agent, const Ringfence__Control__Chunk *chunk)
{
    base_error error;
    if (!agent_files_chunk(agent, chunk, &error)) {
        agent_give_up(agent, &error);
    }
}

static void handle_fetch(launch_agent *agent, const Ringfence__Control__Fetch *fetch)
{
    base_error error;
    if (agent_state_send(agent, fetch, &error) != BASE_OK) {
        agent_give_up(agent, &error);
    }
}

void agent_handle(launch_agent *agent, const envelope_type *envelope)
{
    agent->last_message_ns = base_now_ns();
    if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE &&
        envelope->refuse->for_now && agent->state == AGENT_ENROLLED) {
        agent_refused_for_now(agent, envelope->refuse->reason);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE) {
        base_log(BASE_LOG_ERROR, "the head has refused this host: %s", envelope->refuse->reason);
        agent->refused = true;
        agent_end_ranks(agent, BASE_EXIT_USAGE);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_END) {
        handle_end(agent, envelope->end);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN &&
               agent->state == AGENT_ENROLLED) {
        handle_assign(agent, envelope->assign);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_WAIT &&
               agent->state == AGENT_ENROLLED) {
        handle_wait(agent, envelope->wait);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_LEASE &&
               agent->state == AGENT_PREPARED) {
        handle_lease(agent, envelope->lease);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_BEGIN &&
               agent->state == AGENT_PREPARED) {
        handle_begin(agent, envelope->begin);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_SIGNAL &&
               agent->state == AGENT_RUNNING) {
        handle_signal(agent, envelope->signal);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK &&
               agent->state == AGENT_FETCHING) {
        handle_chunk(agent, envelope->chunk);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH &&
               agent->state == AGENT_RUNNING) {
        handle_fetch(agent, envelope->fetch);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT) {
        agent->taken_bytes = envelope->heartbeat->printed_bytes;
    }
}
