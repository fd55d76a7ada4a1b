/* How a job's ranks find each other: joining, the roster, readiness, and the deadlines for both.
 * Called by messages.c for each message, and by job_run.c for the deadlines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/address.h"
#include "job/head.h"
#include "job/rendezvous.h"

void rendezvous_send(launch_session *session, int rank, ProtobufCMessage *body)
{
    base_error error;
    const base_status status = proto_bus_send(session->bus, rank, body, &error);
    if (status != BASE_OK && !session->ranks[rank].exited) {
        /* of one that is not connected any more, its process or its host has the reason */
        launch_blame(session, status == BASE_ERR_PEER ? LAUNCH_BLAME_LOST : LAUNCH_BLAME_UNCLEAR,
                     rank, BASE_EXIT_ERROR, "rank %d (pid %d) cannot be reached: %s", rank,
                     launch_rank_pid(&session->ranks[rank]), error.message);
    }
}

/* Tells all ranks that all have joined. */
static void send_roster(launch_session *session)
{
    Ringfence__Control__Roster roster = RINGFENCE__CONTROL__ROSTER__INIT;
    for (int rank = 0; rank < session->world_size; rank++) {
        rendezvous_send(session, rank, &roster.base);
    }
}

/* The time from the roster to the last Ready, in which ranks read the data, connect to each other
 * and share the parameters. It is the sum of the timeouts of these parts. So a rank that waits for
 * another in a collective reports first, because it knows which rank it waits for. */
static int64_t ready_timeout_ms(const proto_job *job)
{
    return job->parallel.timeout_ms + job->parallel.join_timeout_ms;
}

void rendezvous_handle_join(launch_session *session, int rank, const Ringfence__Control__Join *join)
{
    launch_rank *joining = &session->ranks[rank];
    launch_rank_info *info = &session->result->ranks[rank];
    if (joining->joined) {
        BLAME_PROTOCOL(session, rank, "joined %s", "twice");
        return;
    }
    if (join->rank != (uint32_t)rank) {
        BLAME_PROTOCOL(session, rank, "says that it is rank %u", join->rank);
        return;
    }
    if (session->options->program == NULL && strcmp(join->build, base_version_build()) != 0) {
        BLAME_PROTOCOL(session, rank,
                       "is of build %s, the launcher of %s: build both programs from the same "
                       "sources",
                       join->build[0] != '\0' ? join->build : "?", base_version_build());
        session->cause.fails_again |=
            session->cause.rank == rank; /* another attempt starts it, too */
        return;
    }
    joining->joined = true;
    joining->pid = session->options->program != NULL || joining->node != 0 ? (pid_t)join->pid
                                                                           : joining->process.pid;
    (void)snprintf(joining->hostname, sizeof joining->hostname, "%s", join->hostname);
    (void)snprintf(info->host, sizeof info->host, "%s", join->hostname);
    info->pid = joining->pid;
    if (session->joined_count == 0 && session->options->program != NULL) {
        session->join_deadline_ns =
            base_deadline_after_ns(session->job->parallel.join_timeout_ms * BASE_NS_PER_MS);
    }
    session->joined_count++;
    if (session->joined_count == session->world_size) {
        session->join_deadline_ns = BASE_NO_DEADLINE;
        if (proto_mode_get(session->job->job.mode)->trains) {
            /* ranks of other modes send no Ready */
            session->ready_deadline_ns =
                base_deadline_after_ns(ready_timeout_ms(session->job) * BASE_NS_PER_MS);
        }
        send_roster(session);
    }
}

/* How many sentences a rank's shard has: slot s of S has the sentences whose index in the file is s
 * modulo S. */
static uint64_t shard_sentences(const proto_job *job, uint64_t total, int rank)
{
    const int64_t slots = job->train.micro_batches * proto_job_replicas(job);
    const int64_t replica = proto_job_place(job, rank).replica;
    uint64_t sum = 0;
    for (int64_t i = 0; i < job->train.micro_batches; i++) {
        const uint64_t slot = (uint64_t)proto_job_slot(job, replica, i);
        sum += total / (uint64_t)slots + (slot < total % (uint64_t)slots);
    }
    return sum;
}

/* Warns if the rank's instruction set gives other bits than rank 0's: `baseline` beside any other. */
static void warn_of_other_bits(launch_session *session, int rank)
{
    const char *set = session->result->ranks[rank].instruction_set;
    const char *first = session->result->ranks[0].instruction_set;
    if (strcmp(set, first) == 0 ||
        (strcmp(set, "baseline") != 0 && strcmp(first, "baseline") != 0)) {
        return;
    }
    launch_screen_say(&session->screen,
                      "warning: rank %d (host %s) computes with %s, rank 0 (host %s) with %s: the "
                      "parameters have other bits than on equal hosts",
                      rank, session->ranks[rank].hostname, set, session->ranks[0].hostname, first);
}

/* Lists the ranks' instruction sets, each once, in the order of ranks: "avx512+baseline". */
static void note_instruction_sets(launch_session *session)
{
    launch_job_result *result = session->result;
    char *all = result->instruction_set;
    for (int rank = 0; rank < session->world_size; rank++) {
        const char *set = result->ranks[rank].instruction_set;
        int first = 0;
        while (strcmp(result->ranks[first].instruction_set, set) != 0) {
            first++;
        }
        if (first < rank) {
            continue;
        }
        if (strlen(all) + strlen(set) + 2 < sizeof result->instruction_set) {
            base_text_append(all, sizeof result->instruction_set, "%s%s", all[0] == '\0' ? "" : "+",
                             set);
        }
        warn_of_other_bits(session, rank);
    }
}

/* Checks that the ranks agree, once all have sent Ready. */
static void check_ready(launch_session *session)
{
    const launch_rank_info *info = session->result->ranks;
    for (int rank = 0; rank < session->world_size; rank++) {
        if (memcmp(session->ranks[rank].params_digest, session->ranks[0].params_digest,
                   PROTO_DIGEST_BYTES) != 0) {
            BLAME_PROTOCOL(session, rank, "starts from other parameters than rank %d", 0);
            return;
        }
        if (info[rank].sentences_total != info[0].sentences_total) {
            BLAME_PROTOCOL(session, rank,
                           "counts %" PRIu64 " sentences in the data, rank 0 counts %" PRIu64,
                           info[rank].sentences_total, info[0].sentences_total);
            return;
        }
        const uint64_t due = shard_sentences(session->job, info[0].sentences_total, rank);
        if (info[rank].sentences_shard != due) {
            BLAME_PROTOCOL(session, rank,
                           "has %" PRIu64 " of %" PRIu64 " sentences, its shard is of %" PRIu64,
                           info[rank].sentences_shard, info[0].sentences_total, due);
            return;
        }
        /* the ranks of a replica have one shard together */
        const int each = session->world_size / (int)proto_job_replicas(session->job);
        for (int other = 0; rank % each == 0 && other < rank; other += each) {
            if (info[rank].first_sentence[0] != '\0' &&
                strcmp(info[rank].first_sentence, info[other].first_sentence) == 0) {
                char shown[BASE_TEXT_SHOWN_BYTES];
                base_text_shorten(info[rank].first_sentence, shown);
                launch_screen_say(&session->screen,
                                  "warning: the shards of ranks %d and %d begin with the same "
                                  "sentence: \"%s\"",
                                  other, rank, shown);
            }
        }
    }
    note_instruction_sets(session);
    session->progress_step = (int64_t)session->result->first_step + 1;
    base_error error;
    bool fails_again = true;
    base_status status = launch_head_check_room(session, &fails_again, &error);
    if (status == BASE_OK && session->options->on_ready != NULL) {
        launch_screen_clear(&session->screen);
        status = session->options->on_ready(session->options->user, &error);
    }
    if (status != BASE_OK) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                     error.message);
        session->cause.fails_again = fails_again;
        return;
    }
    launch_steps_go_on_from(session->steps, session->result->first_step); /* as the record does */
    session->result->ready = true;
    session->ready_deadline_ns = BASE_NO_DEADLINE;
}

void rendezvous_handle_ready(launch_session *session, int rank,
                             const Ringfence__Control__Ready *ready)
{
    launch_job_result *result = session->result;
    launch_rank *speaking = &session->ranks[rank];
    launch_rank_info *info = &result->ranks[rank];
    if (speaking->ready) {
        BLAME_PROTOCOL(session, rank, "was ready %s", "twice");
        return;
    }
    speaking->ready = true;
    memcpy(speaking->params_digest, ready->params_blake2b256.data, PROTO_DIGEST_BYTES);
    info->sentences_total = ready->sentences_total;
    info->sentences_shard = ready->sentences_shard;
    info->sentences_long = ready->sentences_long;
    (void)snprintf(info->first_sentence, sizeof info->first_sentence, "%s", ready->first_sentence);
    (void)snprintf(info->instruction_set, sizeof info->instruction_set, "%s",
                   ready->instruction_set);
    if (session->ready_count == 0) {
        result->model_params = ready->model_params;
        result->trained_params =
            ready->adapter_params > 0 ? ready->adapter_params : ready->model_params;
        result->first_step = ready->first_step;
        (void)snprintf(result->transport, sizeof result->transport, "%s", ready->transport);
        (void)snprintf(result->algorithm, sizeof result->algorithm, "%s", ready->algorithm);
    } else if (ready->model_params != result->model_params) {
        BLAME_PROTOCOL(session, rank, "has %" PRIu64 " parameters, another rank %" PRIu64,
                       ready->model_params, result->model_params);
        return;
    } else if (ready->first_step != result->first_step) {
        BLAME_PROTOCOL(session, rank, "goes on from step %" PRIu64 ", another rank from %" PRIu64,
                       ready->first_step, result->first_step);
        return;
    }
    speaking->steps_reported = (int64_t)ready->first_step;
    session->ready_count++;
    if (session->ready_count == session->world_size) {
        check_ready(session);
    }
}

/* Lists the ranks that have not joined, or are not ready: "0 (pid 42), 1 (pid 43)". *first is the
 * first of them, *node the host of all, or 0. Returns how many there are. */
static int list_missing(const launch_session *session, bool joining, char *text, size_t size_bytes,
                        int *first, int *node)
{
    int count = 0;
    text[0] = '\0';
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (joining ? rank->joined : rank->ready) {
            continue;
        }
        *first = count == 0 ? i : *first;
        *node = count == 0 || rank->node == *node ? rank->node : 0;
        if (strlen(text) + BASE_HOSTNAME_BYTES + 48 < size_bytes) {
            base_text_append(text, size_bytes, "%s%d (%s%s%spid %d)", count == 0 ? "" : ", ", i,
                             joining ? "" : "host ", rank->hostname, joining ? "" : ", ",
                             launch_rank_pid(rank));
        }
        count++;
    }
    return count;
}

/* Ranks of other hosts connect to a second port of the head's. Where a firewall drops that, they hear nothing. */
static void describe_way(const launch_session *session, int rank, char *text, size_t size_bytes)
{
    text[0] = '\0';
    if (session->head != NULL && session->ranks[rank].node != 0) {
        (void)snprintf(text, size_bytes,
                       "; does a firewall let that host reach port %d of the head's? "
                       "--listen-ports chooses it",
                       launch_address_port(proto_bus_endpoint(session->bus)));
    }
}

static void blame_missing(launch_session *session, bool joining, int64_t timeout_ms)
{
    char missing[1024];
    char way[128] = "";
    char stops[256];
    char exchange[256];
    int first = PROTO_NO_RANK;
    int node = 0;
    const int count = list_missing(session, joining, missing, sizeof missing, &first, &node);
    rendezvous_describe_exchange(session, exchange, sizeof exchange);
    launch_watch_describe_stops(session, stops, sizeof stops);
    if (joining && count > 0) {
        describe_way(session, first, way, sizeof way);
    }
    if (launch_blame(session, LAUNCH_BLAME_CAUSE, first, BASE_EXIT_ERROR,
                     "%d of %d ranks %s within %g s%s: %s %s%s%s%s", count, session->world_size,
                     joining ? "have not joined" : "are not ready", (double)timeout_ms / 1000,
                     joining ? "" : " of joining", count == 1 ? "rank" : "ranks", missing, exchange,
                     stops, way)) {
        session->cause.node = node;
    }
}

int64_t launch_rendezvous_deadlines(launch_session *session, int64_t now_ns)
{
    if (session->abort_due_ns != BASE_NO_DEADLINE) {
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= session->join_deadline_ns) {
        session->join_deadline_ns = BASE_NO_DEADLINE;
        blame_missing(session, true, session->job->parallel.join_timeout_ms);
    } else if (now_ns >= session->ready_deadline_ns) {
        session->ready_deadline_ns = BASE_NO_DEADLINE;
        blame_missing(session, false, ready_timeout_ms(session->job));
    }
    return session->join_deadline_ns < session->ready_deadline_ns ? session->join_deadline_ns
                                                                  : session->ready_deadline_ns;
}
