/* Reaches the head, and enrols this host with it: resolving, connecting, and trying again until the
 * join timeout. Called by agent.c. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/version.h"

const char *agent_head_name(const launch_agent *agent)
{
    const char *given = agent->options->hosts.rendezvous;
    const char *file = agent->bootstrap.file;
    return given[0] != '\0' ? given : file[0] != '\0' ? file : agent->head_address;
}

/* Ends this attempt. The next is made soon, and later ones less often: launchers are mostly started
 * at about the same time. */
static void hang_up(launch_agent *agent)
{
    if (!agent->waits && !agent->options->quiet) {
        base_log(BASE_LOG_INFO, "waiting for the head at %s: %s", agent_head_name(agent),
                 agent->trouble.message);
    }
    agent->waits = true;
    proto_bus_close(agent->bus);
    agent->bus = NULL;
    agent->connected = false;
    agent->call_ns = base_deadline_after_ns(agent->retry_ms * BASE_NS_PER_MS);
    agent->retry_ms = 2 * agent->retry_ms < LAUNCH_RETRY_MS ? 2 * agent->retry_ms : LAUNCH_RETRY_MS;
}

/* Connects to the next of the head's addresses, with a new socket. */
static base_status connect_next(launch_agent *agent, base_error *reterr)
{
    launch_bootstrap *bootstrap = &agent->bootstrap;
    char endpoint[PROTO_ENDPOINT_BYTES];
    const launch_wait soon = {
        .deadline_ns = base_deadline_after_ns(LAUNCH_RESOLVE_MS * BASE_NS_PER_MS),
        .signal_fd = -1, /* the loop hears the user */
    };
    const base_status status = launch_bootstrap_locate(bootstrap, &soon, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const base_addresses *found = &bootstrap->addresses;
    const char *numeric = found->numeric[agent->attempt++ % found->count];
    (void)snprintf(agent->head_address, sizeof agent->head_address, "%s", numeric);
    launch_address_endpoint(numeric, bootstrap->port, endpoint);
    const proto_bus_agent_options options = {
        .endpoint = endpoint,
        .keys = &bootstrap->own,
        .head_public_key = bootstrap->public_keys[0],
        .nodes = (int)agent->options->hosts.nodes,
    };
    return proto_bus_connect_head(&options, &agent->bus, reterr);
}

/* Whether that is the last thing that has happened. */
static bool is_put_off(const launch_agent *agent)
{
    return agent->put_off && agent->trouble.status == BASE_ERR_BUSY;
}

static void give_up_calling(launch_agent *agent)
{
    const char *why = agent->trouble.message[0] != '\0' ? agent->trouble.message : "no answer";
    if (is_put_off(agent)) {
        base_log(BASE_LOG_ERROR, "the head has refused this host: %s", why);
    } else {
        base_log(BASE_LOG_ERROR, "no head at %s within %g s: %s (key of run %s)",
                 agent_head_name(agent),
                 (double)agent->options->job.parallel.join_timeout_ms / 1000, why,
                 agent->bootstrap.run_id);
    }
    agent->state = AGENT_ENDING;
    agent->exit_code = is_put_off(agent) ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
}

void agent_refused_for_now(launch_agent *agent, const char *reason)
{
    (void)base_fail(&agent->trouble, BASE_ERR_BUSY, "%s", reason);
    if (!agent->put_off) {
        base_log(BASE_LOG_WARNING, "%s; trying again", reason);
    }
    agent->put_off = true;
    agent->waits = true; /* the user was told */
    agent->state = AGENT_CALLING;
    hang_up(agent);
    agent->call_ns = base_deadline_after_ns(LAUNCH_HEARTBEAT_MS * BASE_NS_PER_MS);
}

int64_t agent_call(launch_agent *agent, int64_t now_ns)
{
    if (agent->state != AGENT_CALLING && agent->state != AGENT_ENROLLED) {
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= agent->join_deadline_ns) {
        give_up_calling(agent);
        return now_ns;
    }
    if (agent->bus == NULL && now_ns >= agent->call_ns) {
        if (connect_next(agent, &agent->trouble) != BASE_OK) {
            hang_up(agent);
        }
        agent->sent = true; /* events may have come already */
    }
    return agent->bus == NULL && agent->call_ns < agent->join_deadline_ns ? agent->call_ns
                                                                          : agent->join_deadline_ns;
}

void agent_call_again(launch_agent *agent)
{
    agent_ranks_close(agent);
    agent_files_close(&agent->files);
    proto_bus_close(agent->bus);
    base_fd_close(&agent->job_fd);
    agent->bus = NULL;
    agent->part.tried_again = false;
    agent->again = agent->connected = agent->waits = agent->put_off = agent->silent = false;
    agent->more = false;
    agent->pending.waits = false;
    agent->printed_bytes = agent->taken_bytes = 0;
    agent->trouble.message[0] = '\0';
    agent->call_ns = base_now_ns();
    agent->retry_ms = LAUNCH_RETRY_MIN_MS;
    agent->join_deadline_ns =
        base_deadline_after_ns(agent->options->job.parallel.join_timeout_ms * BASE_NS_PER_MS);
    agent->state = AGENT_CALLING;
}

/* What the head compares with its own: all flags where the command line has any, else the program,
 * which has to stand on each host. */
static ProtobufCBinaryData digests_of(const launch_options *options)
{
    const launch_flag_digests *own = &options->hosts.flag_digests;
    const int last = options->program != NULL ? 1 : 0;
    const int count = options->hosts.has_flags ? own->count : last;
    return (ProtobufCBinaryData){(size_t)count * PROTO_FLAG_DIGEST_BYTES,
                                 (uint8_t *)(uintptr_t)own->bytes[own->count - count]};
}

static void send_enroll(launch_agent *agent)
{
    const launch_hosts_options *hosts = &agent->options->hosts;
    base_host host;
    Ringfence__Control__Enroll enroll = RINGFENCE__CONTROL__ENROLL__INIT;
    base_host_get(&host);
    enroll.node = (uint32_t)hosts->node_rank;
    enroll.nodes = (uint32_t)hosts->nodes;
    enroll.run_id = agent->bootstrap.run_id;
    enroll.build = (char *)(uintptr_t)base_version_build();
    enroll.ranks = (uint32_t)hosts->ranks_per_node;
    enroll.flag_digests = digests_of(agent->options);
    enroll.hostname = host.hostname;
    enroll.boot_id = host.boot_id;
    enroll.pid_namespace = host.pid_namespace;
    enroll.net_namespace = host.net_namespace;
    enroll.cpus = host.cpus;
    enroll.pid = getpid();
    enroll.head_address = agent->head_address;
    (void)agent_send(agent, &enroll.base);
    if (!is_put_off(agent)) {
        agent->trouble.message[0] = '\0'; /* from now on: no answer */
    }
    agent->state = AGENT_ENROLLED;
}

/* By 0.0.0.0 a host reaches itself. */
static const char *describe_unreachable(const launch_agent *agent)
{
    const char *at = agent->head_address;
    return strcmp(at, "0.0.0.0") == 0 || strcmp(at, "::") == 0
               ? "no connection: 0.0.0.0 and [::] are no address to reach a head by; name the "
                 "head's host"
               : "no connection: nobody listens there, or it accepts none";
}

void agent_event(launch_agent *agent, const proto_bus_event *event)
{
    if (event->kind == PROTO_BUS_CONNECTED) {
        agent->connected = true;
        agent->last_message_ns = base_now_ns();
        send_enroll(agent);
        return;
    }
    const char *why = event->kind == PROTO_BUS_UNREACHABLE ? describe_unreachable(agent)
                      : agent->connected                   ? "it has closed the connection"
                                         : "it closed the connection before the handshake's end: "
                                           "it has another key, fewer --nodes, or too many "
                                           "connections";
    (void)base_fail(&agent->trouble, BASE_ERR_PEER, "%s", why);
    if (!agent->refused) {
        if (agent->state >= AGENT_WAITING) { /* it was in the job: the wait begins anew */
            agent->join_deadline_ns = base_deadline_after_ns(
                agent->options->job.parallel.join_timeout_ms * BASE_NS_PER_MS);
        }
        agent->state = AGENT_CALLING;
        agent_files_close(&agent->files);
        hang_up(agent);
    }
}
