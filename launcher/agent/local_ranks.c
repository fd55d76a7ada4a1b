/* Starts the ranks of an agent's host, passes on what they print, and reports their ends. Called by
 * agent.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "budget/lease.h"
#include "job/start_local.h"

enum {
    NO_FD = -1,
    READS_AT_ONCE = 8,
    CPU_BITS_BYTES = CPU_SETSIZE / 8,
};

/* ---- starting ---- */

void agent_drop_ranks(launch_agent *agent)
{
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        base_fd_close(&agent->ranks[i].lease_fd);
    }
    free(agent->ranks);
    agent->ranks = NULL;
}

base_status agent_make_ranks(launch_agent *agent, base_error *reterr)
{
    agent->ranks = calloc((size_t)agent->part.ranks, sizeof agent->ranks[0]);
    if (agent->ranks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d ranks", agent->part.ranks);
    }
    for (int i = 0; i < agent->part.ranks; i++) {
        agent->ranks[i].process =
            (launch_process){.pidfd = NO_FD, .out_fd = NO_FD, .err_fd = NO_FD};
        agent->ranks[i].lease_fd = NO_FD;
    }
    return BASE_OK;
}

base_status agent_take_lease(launch_agent *agent, const Ringfence__Control__Lease *lease,
                             base_error *reterr)
{
    const agent_part *part = &agent->part;
    const int index = (int)lease->rank - part->first_rank;
    const launch_rank_lease given = {
        .attempt = (int)lease->attempt, .token = lease->token, .receipt = lease->receipt};
    if (index < 0 || index >= part->ranks || agent->ranks[index].lease_fd >= 0) {
        return BASE_OK;
    }
    return launch_lease_receive(&given, part->keyring, &agent->ranks[index].lease_fd, reterr);
}

static void report_started(launch_agent *agent, int index, const cpu_set_t *cpus)
{
    uint8_t bits[CPU_BITS_BYTES] = {0};
    Ringfence__Control__Started started = RINGFENCE__CONTROL__STARTED__INIT;
    started.rank = (uint32_t)(agent->part.first_rank + index);
    started.pid = agent->ranks[index].process.pid;
    if (cpus != NULL) {
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            bits[cpu / 8] |= (uint8_t)(CPU_ISSET(cpu, cpus) ? 1U << (cpu % 8) : 0);
        }
        started.cpus = (ProtobufCBinaryData){sizeof bits, bits};
    }
    (void)agent_send(agent, &started.base);
}

static base_status start_rank(launch_agent *agent, int index,
                              const Ringfence__Control__Begin *begin, int lifeline_read_fd,
                              base_error *reterr)
{
    const agent_part *part = &agent->part;
    const int rank = part->first_rank + index;
    proto_key_file key;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (agent->affinity.bound) {
        launch_affinity_set(&agent->affinity, index, &cpus);
    }
    launch_address_endpoint(agent->head_address, (int)begin->port, key.endpoint);
    memcpy(key.launcher_public_key, begin->launcher_public_key.data, PROTO_KEY_BYTES);
    memcpy(key.collectives_key, begin->collectives_key.data, PROTO_KEY_BYTES);
    proto_rank_key(begin->rank_seed.data, rank, &key.rank);
    const launch_spawn_options options = {
        .rank_path = agent->rank_path,
        .program = agent->options->program,
        .root = agent->options->root,
        .files = agent->files.run,
        .interface = agent->options->job.parallel.interface,
        .ports = part->ports,
        .rank = rank,
        .world_size = part->world_size,
        .local_rank = (int)begin->local_first + index,
        .local_world_size = (int)begin->local_ranks,
        .threads = (int)part->job.parallel.threads_per_rank,
        .host_timeout_ms = (int)(part->host_timeout_ns / BASE_NS_PER_MS),
        .cpus = agent->affinity.bound ? &cpus : NULL,
        .bind_to_gpu = agent->options->bind,
        .job_fd = agent->job_fd,
        .lifeline_fd = lifeline_read_fd,
        .lease_fd = agent->ranks[index].lease_fd,
    };
    const base_status status = launch_start_local(options, &key, (int)begin->master_port,
                                                  &agent->ranks[index].process, reterr);
    proto_wipe(&key, sizeof key);
    base_fd_close(&agent->ranks[index].lease_fd);
    if (status == BASE_OK) {
        agent->ranks[index].started = true;
        report_started(agent, index, agent->affinity.bound ? &cpus : NULL);
    }
    return status;
}

static base_status bind_ranks(launch_agent *agent, base_error *reterr)
{
    const launch_options *options = agent->options;
    if (!options->bind || proto_mode_get(agent->part.job.job.mode)->on_gpus) {
        return BASE_OK;
    }
    const base_status status = launch_affinity_init(
        &agent->affinity, agent->part.ranks, (int)agent->part.job.parallel.threads_per_rank,
        options->hosts.place.engine != LAUNCH_ENGINE_NONE ? LAUNCH_AFFINITY_ENGINE
                                                          : LAUNCH_AFFINITY_CLAIM,
        reterr);
    if (status == BASE_OK && !agent->affinity.bound && !options->quiet) {
        base_log(BASE_LOG_WARNING, "ranks are not bound to CPUs of their own: %s",
                 agent->affinity.why_not);
    }
    return status;
}

base_status agent_start_ranks(launch_agent *agent, const Ringfence__Control__Begin *begin,
                              base_error *reterr)
{
    int lifeline[2] = {NO_FD, NO_FD};
    agent->state = AGENT_RUNNING;
    launch_oom_open(&agent->oom);
    base_status status = bind_ranks(agent, reterr);
    if (status == BASE_OK && pipe2(lifeline, O_CLOEXEC) != 0) {
        status = base_fail_errno(reterr, errno, "cannot make the lifeline");
    }
    agent->lifeline_fd = lifeline[1];
    for (int i = 0; i < agent->part.ranks && status == BASE_OK; i++) {
        status = start_rank(agent, i, begin, lifeline[0], reterr);
    }
    base_fd_close(&lifeline[0]);
    return status;
}

/* ---- output ---- */

static bool send_printed(launch_agent *agent, const agent_pending *printed)
{
    Ringfence__Control__Printed message = RINGFENCE__CONTROL__PRINTED__INIT;
    message.rank = (uint32_t)(agent->part.first_rank + printed->index);
    message.is_stderr = printed->fd_number == STDERR_FILENO;
    message.data = (ProtobufCBinaryData){printed->bytes, (uint8_t *)(uintptr_t)printed->data};
    message.last = printed->last;
    return agent_send(agent, &message.base);
}

/* Sends what waits. False: there is still no room. */
static bool flush_pending(launch_agent *agent)
{
    if (agent->pending.waits && send_printed(agent, &agent->pending)) {
        agent->pending.waits = false;
        agent->printed_bytes += agent->pending.bytes;
    }
    return !agent->pending.waits;
}

/* Whether the head has room for more output. What an ended rank has left in its pipes is sent without:
 * it is bounded, and the head waits for that rank's end. A rank that has to end must not wait for room,
 * either: what it still says is lost then, but it saves its state. */
static bool head_has_room(const launch_agent *agent)
{
    return agent->printed_bytes < agent->taken_bytes + PROTO_PRINTED_AHEAD_BYTES;
}

/* Passes on what a rank's pipe holds, and closes the pipe at its end. `last`: no more output is
 * waited for. False: the head's queue is full. */
static bool pass_output(launch_agent *agent, int index, int fd_number, bool last)
{
    agent_rank *rank = &agent->ranks[index];
    int *fd = fd_number == STDOUT_FILENO ? &rank->process.out_fd : &rank->process.err_fd;
    agent_pending *printed = &agent->pending;
    int now = 0;
    int *reads = last ? &rank->last_reads[fd_number == STDERR_FILENO] : &now;
    const int reads_max = last ? PROTO_PRINTED_LAST_MESSAGES_MAX : READS_AT_ONCE;
    bool ended = false;
    bool empty = false;
    for (; *fd >= 0 && !ended && !empty && *reads < reads_max; (*reads)++) {
        if (!flush_pending(agent)) {
            return false;
        }
        const bool room = head_has_room(agent);
        const bool drops = !room && agent->state == AGENT_ENDING;
        if (!room && !drops && !last) {
            return true; /* the rank waits, once its pipe is full */
        }
        const ssize_t got = read(*fd, printed->data, sizeof printed->data);
        ended = got == 0;
        empty = got < 0 && errno != EINTR; /* EAGAIN: a child of the rank's may hold the pipe */
        if (got > 0 && !drops) {
            printed->index = index;
            printed->fd_number = fd_number;
            printed->last = false;
            printed->bytes = (size_t)got;
            printed->waits = true;
        }
    }
    if (!flush_pending(agent)) {
        return false;
    }
    if (*fd >= 0 && (ended || last)) {
        (void)close(*fd);
        *fd = NO_FD;
        printed->index = index;
        printed->fd_number = fd_number;
        printed->last = true;
        printed->bytes = 0;
        printed->waits = true;
    }
    return flush_pending(agent);
}

/* ---- ends ---- */

static bool report_exited(launch_agent *agent, int index, const siginfo_t *info)
{
    char reason[PROTO_NAME_BYTES_MAX] = "";
    agent_state_file *state = &agent->ranks[index].state;
    Ringfence__Control__File saved = RINGFENCE__CONTROL__FILE__INIT;
    Ringfence__Control__Exited exited = RINGFENCE__CONTROL__EXITED__INIT;
    if (agent->state == AGENT_ENDING) {
        return true; /* by this launcher; the head sees that it leaves */
    }
    exited.rank = (uint32_t)(agent->part.first_rank + index);
    exited.by_signal = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
    exited.status = (uint32_t)info->si_status;
    if (exited.by_signal) {
        (void)snprintf(
            reason, sizeof reason, "%s",
            launch_oom_reason(&agent->oom, info->si_status, agent->ranks[index].process.pid));
    }
    if (state->saved) {
        saved.size_bytes = state->size_bytes;
        saved.sha256 = (ProtobufCBinaryData){sizeof state->sha256, state->sha256};
        exited.state = &saved;
    }
    exited.reason = reason;
    return agent_send(agent, &exited.base);
}

/* Whether it is known what an ended rank has saved. Only one that has done its work has. */
static bool state_known(launch_agent *agent, int index, const siginfo_t *info)
{
    base_error error;
    bool known = true;
    if (agent->state == AGENT_RUNNING && info->si_code == CLD_EXITED && info->si_status == 0 &&
        agent_state_look(agent, index, &known, &error) != BASE_OK) {
        agent_give_up(agent, &error);
    }
    return known;
}

/* Handles the end of a rank's process. It is called again as long as the head's queue is full, or the
 * rank's state is read. */
static void handle_exit(launch_agent *agent, int index)
{
    agent_rank *rank = &agent->ranks[index];
    siginfo_t info = {0};
    if (!rank->started || rank->exited ||
        waitid(P_PID, (id_t)rank->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
        return;
    }
    if (pass_output(agent, index, STDOUT_FILENO, true) &&
        pass_output(agent, index, STDERR_FILENO, true) && state_known(agent, index, &info) &&
        report_exited(agent, index, &info)) {
        launch_process_reap(&rank->process);
        rank->exited = true;
    }
}

void agent_rank_stops(launch_agent *agent)
{
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        const agent_rank *rank = &agent->ranks[i];
        siginfo_t info = {0};
        if (!rank->started || rank->exited ||
            waitid(P_PID, (id_t)rank->process.pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
            info.si_pid == 0) {
            continue;
        }
        Ringfence__Control__Halted halted = RINGFENCE__CONTROL__HALTED__INIT;
        halted.rank = (uint32_t)(agent->part.first_rank + i);
        halted.signal = info.si_code == CLD_STOPPED ? (uint32_t)info.si_status : 0;
        (void)agent_send(agent, &halted.base);
    }
}

/* ---- the loop's part ---- */

void agent_rank_polls(const launch_agent *agent, struct pollfd *polls)
{
    const bool full = agent->pending.waits;
    const bool room = !full && head_has_room(agent);
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        const launch_process *process = &agent->ranks[i].process;
        struct pollfd *rank = &polls[(size_t)i * AGENT_POLLS_PER_RANK];
        rank[0] = (struct pollfd){.fd = full ? NO_FD : process->pidfd, .events = POLLIN};
        rank[1] = (struct pollfd){.fd = room ? process->out_fd : NO_FD, .events = POLLIN};
        rank[2] = (struct pollfd){.fd = room ? process->err_fd : NO_FD, .events = POLLIN};
    }
}

void agent_rank_events(launch_agent *agent, const struct pollfd *polls)
{
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        const struct pollfd *rank = &polls[(size_t)i * AGENT_POLLS_PER_RANK];
        if (rank[1].revents != 0) {
            (void)pass_output(agent, i, STDOUT_FILENO, false);
        }
        if (rank[2].revents != 0) {
            (void)pass_output(agent, i, STDERR_FILENO, false);
        }
        if (rank[0].revents != 0) {
            handle_exit(agent, i);
        }
    }
    (void)flush_pending(agent);
}

void agent_rank_signal(launch_agent *agent, int index, int signal_number)
{
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        const agent_rank *rank = &agent->ranks[i];
        if ((index < 0 || index == i) && rank->started && !rank->exited) {
            launch_process_signal(&rank->process, signal_number);
        }
    }
}

bool agent_ranks_run(const launch_agent *agent)
{
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        if (agent->ranks[i].started && !agent->ranks[i].exited) {
            return true;
        }
    }
    return false;
}

void agent_ranks_close(launch_agent *agent)
{
    agent_rank_signal(agent, -1, SIGKILL);
    for (int i = 0; agent->ranks != NULL && i < agent->part.ranks; i++) {
        agent_rank *rank = &agent->ranks[i];
        launch_hashing_close(rank->state.hashing);
        if (rank->started && !rank->exited) {
            launch_process_reap(&rank->process);
            rank->exited = true;
        }
        base_fd_close(&rank->process.out_fd);
        base_fd_close(&rank->process.err_fd);
    }
    agent_drop_ranks(agent);
    launch_affinity_fini(&agent->affinity);
    launch_oom_close(&agent->oom);
    base_fd_close(&agent->lifeline_fd);
}
