/* The event loop of an agent: the head's messages and silence, its own ranks, and its user. Called
 * by cli.c on hosts that are not the head's. */
#include "agent/agent.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/parent.h"
#include "job/signals.h"
#include "job/writer.h"

enum {
    NO_FD = -1,
    FIXED_POLLS = PROTO_BUS_FDS + 1,
    POLL_MS_MAX = 1000,
    POLL_BUSY_MS = 5,
    OUTPUT_WAIT_S = 5, /* for a reader, at the end */
};

bool agent_send(launch_agent *agent, ProtobufCMessage *body)
{
    base_error error;
    if (agent->bus == NULL) {
        return true;
    }
    agent->sent = agent->state != AGENT_ENDING;
    return proto_bus_send(agent->bus, PROTO_NO_RANK, body, &error) != BASE_ERR_BUSY ||
           agent->state == AGENT_ENDING; /* then nobody waits for it any more */
}

void agent_end_ranks(launch_agent *agent, int exit_code)
{
    if (agent->state != AGENT_ENDING) {
        agent->state = AGENT_ENDING;
        agent->exit_code = exit_code;
        agent->kill_ns = base_deadline_after_ns(LAUNCH_KILL_AFTER_MS * BASE_NS_PER_MS);
        agent_rank_signal(agent, -1, SIGTERM);
        agent_rank_signal(agent, -1, SIGCONT);
    }
}

void agent_end_attempt(launch_agent *agent)
{
    if (agent->state != AGENT_ENDING) {
        agent_end_ranks(agent, BASE_EXIT_SIGNAL_BASE + agent->asked_signal);
        agent->again = !agent->asked; /* else its user has ended it meanwhile */
    }
}

void agent_give_up(launch_agent *agent, const base_error *why)
{
    char reason[BASE_ERROR_MESSAGE_BYTES];
    Ringfence__Control__Refuse refuse = RINGFENCE__CONTROL__REFUSE__INIT;
    (void)snprintf(reason, sizeof reason, "%s", why->message);
    refuse.reason = reason;
    refuse.for_now = !agent->files.changed; /* another launcher of this node may do better */
    base_log(BASE_LOG_ERROR, "%s", why->message);
    (void)agent_send(agent, &refuse.base);
    agent_end_ranks(agent, BASE_EXIT_ERROR);
}

/* ---- the head ---- */

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
        prepared.files = (uint32_t)agent->files.fetched_files;
        prepared.bytes = agent->files.fetched_bytes;
        prepared.knows_room = agent_files_room(&agent->files, &prepared.room_bytes);
        (void)agent_send(agent, &prepared.base);
        agent->state = AGENT_PREPARED;
    }
    return next_ns;
}

static void lose_head(launch_agent *agent, const char *what)
{
    const bool again = agent->part.tried_again;
    base_log(again ? BASE_LOG_WARNING : BASE_LOG_ERROR,
             "the head at %s is lost: %s; this host's ranks are ended%s", agent_head_name(agent),
             what, again ? ", and it is called again, in case that it lives" : "");
    if (again) {
        agent_end_attempt(agent);
    } else {
        agent_end_ranks(agent, BASE_EXIT_ERROR);
    }
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
            agent_handle(agent, envelope);
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
    if (agent->state < AGENT_WAITING || agent->state > AGENT_RUNNING) {
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
        if (agent->state == AGENT_FETCHING) {
            message.files_bytes = agent->files.total_bytes;
            message.have_bytes = agent_files_have(&agent->files);
        }
        (void)agent_send(agent, &message.base);
        agent->heartbeat_due_ns = now_ns + LAUNCH_HEARTBEAT_MS * BASE_NS_PER_MS;
    }
    return next_heartbeat(agent);
}

/* ---- the user ---- */

static void stop(launch_agent *agent, int signal_number)
{
    const int64_t silent_ns = base_now_ns() - agent->last_message_ns;
    const bool unheard = agent->asked && silent_ns > 2 * LAUNCH_HEARTBEAT_MS * BASE_NS_PER_MS;
    if (agent->state == AGENT_RUNNING && !unheard) {
        Ringfence__Control__Asked asked = RINGFENCE__CONTROL__ASKED__INIT;
        asked.signal = (uint32_t)signal_number;
        (void)agent_send(agent, &asked.base);
        agent->asked = true;
        base_log(BASE_LOG_INFO, "the head is asked to %s",
                 agent->part.may_leave ? "let this host go, and to go on without it"
                                       : "end the job; once more ends it at once");
        return;
    }
    if (agent->again) { /* between two attempts */
        agent->again = false;
        agent->exit_code = BASE_EXIT_SIGNAL_BASE + signal_number;
    }
    agent_end_ranks(agent, BASE_EXIT_SIGNAL_BASE + signal_number);
    agent->kill_ns = base_now_ns();
}

/* A signal that ends the job, or one that only repeats it. */
static void take_stop(launch_agent *agent, const struct signalfd_siginfo *info)
{
    const int64_t now_ns = base_now_ns();
    if ((agent->asked && launch_parent_has_sent(info)) ||
        launch_parent_sent_twice(info, agent->asked_signal, agent->asked_ns, now_ns)) {
        return;
    }
    if (agent->asked_signal == 0) {
        agent->asked_signal = (int)info->ssi_signo;
        agent->asked_ns = now_ns;
    }
    stop(agent, (int)info->ssi_signo);
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
            take_stop(agent, &info);
        }
    }
}

/* ---- the loop ---- */

static void fill_polls(const launch_agent *agent, struct pollfd *polls)
{
    proto_bus_polls(agent->bus, polls);
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
            if (!agent->again) {
                break;
            }
            agent_call_again(agent);
            continue;
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

static int run_agent(const launch_options *options, const char *rank_path)
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
                                  .in_slurm = options->hosts.place.in_slurm,
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
    base_fd_close(&agent.signal_fd);
    base_fd_close(&agent.job_fd);
    launch_bootstrap_close(&agent.bootstrap);
    return agent.exit_code;
}

int launch_agent_run(const launch_options *options, const char *rank_path)
{
    sigset_t mask_before;
    base_error error;
    if (launch_writer_start(&error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    const int exit_code = run_agent(options, rank_path);
    if (!launch_writer_flush(base_deadline_after_ns(LAUNCH_WRITER_FLUSH_MS * BASE_NS_PER_MS))) {
        /* Whoever started the agent waits for it: its last lines are not worth more. Signals end it. */
        (void)pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
        if (!launch_writer_flush(base_deadline_after_ns(OUTPUT_WAIT_S * BASE_NS_PER_S))) {
            return exit_code;
        }
    }
    launch_writer_stop();
    return exit_code;
}
