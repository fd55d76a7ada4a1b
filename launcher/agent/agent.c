/* The event loop of an agent: the head's messages and silence, its own ranks, and its user. Called
 * by cli.c on hosts that are not the head's. */
#include "agent/agent.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "budget/lease.h"
#include "engine/place.h"
#include "job/signals.h"
#include "job/start_local.h"

enum { NO_FD = -1, FIXED_POLLS = PROTO_BUS_FDS + 1, POLL_MS_MAX = 1000, POLL_BUSY_MS = 5 };

bool agent_send(launch_agent *agent, envelope_type *envelope)
{
    base_error error;
    if (agent->bus == NULL) {
        return true;
    }
    agent->sent = agent->state != AGENT_ENDING;
    return proto_bus_send(agent->bus, PROTO_NO_RANK, envelope, &error) != BASE_ERR_BUSY ||
           agent->state == AGENT_ENDING; /* then nobody waits for it any more */
}

/* Ends what runs here: politely, and soon not. */
static void end_ranks(launch_agent *agent, int exit_code)
{
    if (agent->state != AGENT_ENDING) {
        agent->state = AGENT_ENDING;
        agent->exit_code = exit_code;
        agent->kill_ns = base_deadline_after_ns(LAUNCH_KILL_AFTER_MS * BASE_NS_PER_MS);
        agent_rank_signal(agent, -1, SIGTERM);
        agent_rank_signal(agent, -1, SIGCONT);
    }
}

void agent_give_up(launch_agent *agent, const base_error *why)
{
    char reason[BASE_ERROR_MESSAGE_BYTES];
    Ringfence__Control__Refuse refuse = RINGFENCE__CONTROL__REFUSE__INIT;
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    (void)snprintf(reason, sizeof reason, "%s", why->message);
    refuse.reason = reason;
    refuse.for_now = !agent->files.changed; /* another launcher of this node may do better */
    envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE;
    envelope.refuse = &refuse;
    base_log(BASE_LOG_ERROR, "%s", why->message);
    (void)agent_send(agent, &envelope);
    end_ranks(agent, BASE_EXIT_ERROR);
}

/* ---- the head ---- */

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
    part->host_timeout_ns = assign->host_timeout_ms * BASE_NS_PER_MS;
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
        base_log(BASE_LOG_INFO, "joined run %s as node %" PRId64 ": ranks %d to %d of %d",
                 agent->bootstrap.run_id, agent->options->hosts.node_rank, agent->part.first_rank,
                 agent->part.first_rank + agent->part.ranks - 1, agent->part.world_size);
    }
    agent->state = AGENT_FETCHING;
}

/* Gets on with the job's files. Returns when to call again. */
static int64_t prepare(launch_agent *agent, int64_t now_ns)
{
    base_error error;
    bool all = false;
    int64_t next_ns = BASE_NO_DEADLINE;
    if (agent->state != AGENT_FETCHING) {
        return BASE_NO_DEADLINE;
    }
    if (agent_files_step(agent, now_ns, &all, &next_ns, &error) != BASE_OK) {
        agent_give_up(agent, &error);
        return now_ns;
    }
    if (all) {
        Ringfence__Control__Prepared prepared = RINGFENCE__CONTROL__PREPARED__INIT;
        envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        prepared.files = (uint32_t)agent->files.fetched_files;
        prepared.bytes = agent->files.fetched_bytes;
        envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_PREPARED;
        envelope.prepared = &prepared;
        (void)agent_send(agent, &envelope);
        agent->state = AGENT_PREPARED;
    }
    return next_ns;
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
    if (end->reason[0] != '\0' && !is_beside_head(agent)) {
        base_log(BASE_LOG_ERROR, "%s", end->reason);
    }
    /* where an engine ends all launchers once one fails, the head comes last, with its record */
    end_ranks(agent, is_beside_head(agent) ? BASE_EXIT_DONE : (int)end->exit_code);
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

static void handle(launch_agent *agent, const envelope_type *envelope)
{
    agent->last_message_ns = base_now_ns();
    if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE &&
        envelope->refuse->for_now && agent->state == AGENT_ENROLLED) {
        agent_refused_for_now(agent, envelope->refuse->reason);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE) {
        base_log(BASE_LOG_ERROR, "the head has refused this host: %s", envelope->refuse->reason);
        agent->refused = true;
        end_ranks(agent, BASE_EXIT_USAGE);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_END) {
        handle_end(agent, envelope->end);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN &&
               agent->state == AGENT_ENROLLED) {
        handle_assign(agent, envelope->assign);
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
    }
}

static void lose_head(launch_agent *agent, const char *what)
{
    base_log(BASE_LOG_ERROR, "the head at %s is lost: %s; this host's ranks are ended",
             agent_head_name(agent), what);
    end_ranks(agent, BASE_EXIT_ERROR);
}

/* Takes all messages that have come; of a file that is fetched fast, only so many at once. */
static void drain_messages(launch_agent *agent)
{
    envelope_type *envelope = NULL;
    base_error error;
    int node = PROTO_NO_RANK;
    int taken = 0;
    do {
        agent->more = taken++ == LAUNCH_MESSAGES_AT_ONCE;
        if (agent->more) {
            return;
        }
        const base_status status = proto_bus_recv(agent->bus, &node, &envelope, &error);
        if (status != BASE_OK) {
            lose_head(agent, error.message);
            return;
        }
        if (envelope != NULL && agent->state != AGENT_ENDING) {
            handle(agent, envelope);
        }
    } while (envelope != NULL && agent->bus != NULL);
}

static void drain(launch_agent *agent)
{
    proto_bus_event event;
    if (agent->bus == NULL) {
        return;
    }
    drain_messages(agent);
    /* what came before the connection ended comes first */
    while (agent->bus != NULL && !agent->more && proto_bus_next_event(agent->bus, &event)) {
        do {
            drain_messages(agent);
        } while (agent->more && agent->bus != NULL);
        if (agent->bus == NULL) {
            return; /* the event is of a connection that was given up */
        }
        if (agent->state < AGENT_RUNNING) {
            agent_event(agent, &event);
        } else if (event.kind == PROTO_BUS_DISCONNECTED && agent->state == AGENT_RUNNING) {
            lose_head(agent, "its connection has ended");
        }
    }
}

/* When a heartbeat, the silence's announcement or its end as a loss is due next. */
static int64_t next_heartbeat(const launch_agent *agent)
{
    const int64_t silence_ns =
        agent->silent ? agent->part.host_timeout_ns : LAUNCH_SILENCE_MS * BASE_NS_PER_MS;
    const int64_t silent_ns =
        agent->last_message_ns +
        (silence_ns < agent->part.host_timeout_ns ? silence_ns : agent->part.host_timeout_ns);
    return silent_ns < agent->heartbeat_due_ns ? silent_ns : agent->heartbeat_due_ns;
}

/* Sends heartbeats, and checks a silent head. Returns when to call again. */
static int64_t heartbeat(launch_agent *agent, int64_t now_ns)
{
    const bool slept = now_ns - agent->seen_ns > LAUNCH_SLEPT_MS * BASE_NS_PER_MS;
    agent->seen_ns = now_ns;
    if (agent->state < AGENT_FETCHING || agent->state > AGENT_RUNNING) {
        return BASE_NO_DEADLINE;
    }
    agent->last_message_ns =
        slept ? now_ns : agent->last_message_ns; /* it was this launcher that stood still */
    const int64_t silent_ns = now_ns - agent->last_message_ns;
    if (silent_ns >= agent->part.host_timeout_ns) {
        char what[64];
        (void)snprintf(what, sizeof what, "no heartbeat for %.0f s",
                       (double)silent_ns / BASE_NS_PER_S);
        lose_head(agent, what);
        return now_ns;
    }
    if (agent->silent != (silent_ns >= LAUNCH_SILENCE_MS * BASE_NS_PER_MS)) {
        agent->silent = !agent->silent;
        if (agent->silent) {
            base_log(BASE_LOG_WARNING, "the head: no heartbeat for %.0f s",
                     (double)silent_ns / BASE_NS_PER_S);
        } else {
            base_log(BASE_LOG_WARNING, "the head is back");
        }
    }
    if (now_ns >= agent->heartbeat_due_ns) {
        Ringfence__Control__Heartbeat message = RINGFENCE__CONTROL__HEARTBEAT__INIT;
        envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT;
        envelope.heartbeat = &message;
        if (agent->state == AGENT_FETCHING) {
            message.files_bytes = agent->files.total_bytes;
            message.have_bytes = agent_files_have(&agent->files);
        }
        (void)agent_send(agent, &envelope);
        agent->heartbeat_due_ns = now_ns + LAUNCH_HEARTBEAT_MS * BASE_NS_PER_MS;
    }
    return next_heartbeat(agent);
}

/* ---- the user ---- */

static void stop(launch_agent *agent, int signal_number)
{
    if (agent->state == AGENT_RUNNING && !(agent->asked && agent->silent)) {
        Ringfence__Control__Asked asked = RINGFENCE__CONTROL__ASKED__INIT;
        envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        asked.signal = (uint32_t)signal_number;
        envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_ASKED;
        envelope.asked = &asked;
        (void)agent_send(agent, &envelope);
        agent->asked = true;
        base_log(BASE_LOG_INFO, "the head is asked to end the job; once more ends it at once");
        return;
    }
    end_ranks(agent, BASE_EXIT_SIGNAL_BASE + signal_number);
    agent->kill_ns = base_now_ns();
}

static void take_signals(launch_agent *agent)
{
    struct signalfd_siginfo info;
    while (read(agent->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            agent_rank_stops(agent);
        } else if (info.ssi_signo == SIGTSTP) {
            base_log(BASE_LOG_INFO, "Ctrl-Z: a job on several hosts is not paused");
        } else if (info.ssi_signo == SIGUSR1 && !agent->options->hosts.place.in_slurm) {
            base_log(BASE_LOG_INFO, "SIGUSR1: flight records are asked for at the head");
        } else {
            stop(agent, (int)info.ssi_signo);
        }
    }
}

/* ---- the loop ---- */

static void fill_polls(const launch_agent *agent, struct pollfd *polls)
{
    int fds[PROTO_BUS_FDS] = {NO_FD, NO_FD};
    if (agent->bus != NULL) {
        proto_bus_fds(agent->bus, fds);
    }
    for (int i = 0; i < PROTO_BUS_FDS; i++) {
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    polls[PROTO_BUS_FDS] = (struct pollfd){.fd = agent->signal_fd, .events = POLLIN};
    agent_rank_polls(agent, polls + FIXED_POLLS);
}

/* Does what is due. Returns when to call again. */
static int64_t handle_due(launch_agent *agent)
{
    const int64_t now_ns = base_now_ns();
    int64_t next_ns = agent_call(agent, now_ns);
    const int64_t heartbeat_ns = heartbeat(agent, now_ns);
    const int64_t prepare_ns = prepare(agent, now_ns);
    next_ns = heartbeat_ns < next_ns ? heartbeat_ns : next_ns;
    next_ns = prepare_ns < next_ns ? prepare_ns : next_ns;
    next_ns = agent->more ? now_ns : next_ns;
    if (agent->state == AGENT_ENDING) {
        if (now_ns >= agent->kill_ns) {
            agent_rank_signal(agent, -1, SIGKILL);
        }
        next_ns = agent->kill_ns > now_ns && agent->kill_ns < next_ns ? agent->kill_ns : next_ns;
    }
    return next_ns;
}

static base_status run_loop(launch_agent *agent, base_error *reterr)
{
    struct pollfd *polls =
        calloc(FIXED_POLLS + (size_t)BASE_RANKS_MAX * AGENT_POLLS_PER_RANK, sizeof polls[0]);
    if (polls == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to watch the ranks");
    }
    for (;;) {
        drain(agent);
        agent->sent = false;
        const int64_t next_ns = handle_due(agent);
        if (agent->state == AGENT_ENDING && !agent_ranks_run(agent)) {
            break;
        }
        fill_polls(agent, polls);
        const int ranks = agent->ranks != NULL ? agent->part.ranks : 0;
        /* sending may have consumed the bus's wake-up: then look again before sleeping */
        const int wait_ms = agent->sent ? 0 : agent->pending.waits ? POLL_BUSY_MS : POLL_MS_MAX;
        if (poll(polls, (nfds_t)(FIXED_POLLS + ranks * AGENT_POLLS_PER_RANK),
                 base_deadline_poll_ms(next_ns, wait_ms)) < 0) {
            continue;
        }
        if (polls[PROTO_BUS_FDS].revents != 0) {
            take_signals(agent);
        }
        if (ranks > 0) {
            agent_rank_events(agent, polls + FIXED_POLLS);
        }
    }
    free(polls);
    return BASE_OK;
}

int launch_agent_run(const launch_options *options, const char *rank_path)
{
    static launch_agent agent; /* a process is one agent at most */
    base_error error;
    int ended_by = 0;
    agent = (launch_agent){
        .options = options,
        .rank_path = rank_path,
        .exit_code = BASE_EXIT_ERROR,
        .retry_ms = LAUNCH_RETRY_MIN_MS,
        .signal_fd = NO_FD,
        .job_fd = NO_FD,
        .lifeline_fd = NO_FD,
        .oom = {.kmsg_fd = NO_FD},
        .seen_ns = base_now_ns(),
        .join_deadline_ns =
            base_deadline_after_ns(options->job.parallel.join_timeout_ms * BASE_NS_PER_MS),
    };
    base_status status = launch_signals_open(&agent.signal_fd, &error);
    if (status == BASE_OK) {
        const launch_wait wait = {.deadline_ns = agent.join_deadline_ns,
                                  .signal_fd = agent.signal_fd,
                                  .ended_by = &ended_by};
        status = launch_bootstrap_open(&options->hosts, &wait, &agent.bootstrap, &error);
        agent.exit_code = ended_by != 0 ? BASE_EXIT_SIGNAL_BASE + ended_by : agent.exit_code;
    }
    if (status == BASE_OK) {
        status = run_loop(&agent, &error);
    }
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
    }
    agent_ranks_close(&agent);
    agent_files_close(&agent.files);
    proto_bus_close(agent.bus);
    if (agent.signal_fd >= 0) {
        (void)close(agent.signal_fd);
    }
    if (agent.job_fd >= 0) {
        (void)close(agent.job_fd);
    }
    launch_bootstrap_close(&agent.bootstrap);
    return agent.exit_code;
}
