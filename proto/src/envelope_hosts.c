/* Checks the messages between the launchers of several hosts: head and agents. Called by
 * envelope.c. */
#include "envelope_hosts.h"

#include <control.pb-c.h>
#include <stdint.h>
#include <string.h>

#include "base/ports.h"
#include "proto/digest.h"
#include "proto/job.h"
#include "proto/job_key.h"
#include "proto/lease.h"
#include "proto/limits.h"

enum { EXIT_CODE_MAX = 255, PORT_MAX = 65535 };

typedef Ringfence__Control__Envelope envelope_type;

static bool signal_fits(uint32_t number)
{
    return number <= PROTO_SIGNAL_MAX;
}

static bool enroll_fits(const Ringfence__Control__Enroll *enroll, int nodes)
{
    return enroll->node > 0 && enroll->node < (uint32_t)nodes && enroll->ranks <= BASE_RANKS_MAX &&
           enroll->pid > 0 && enroll->flag_digests.len % PROTO_FLAG_DIGEST_BYTES == 0 &&
           enroll->flag_digests.len <= PROTO_FLAG_DIGESTS_MAX * PROTO_FLAG_DIGEST_BYTES &&
           proto_text_fits(enroll->run_id, PROTO_RUN_ID_BYTES - 1) &&
           proto_text_fits(enroll->build, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(enroll->hostname, BASE_HOSTNAME_BYTES - 1) &&
           proto_text_fits(enroll->boot_id, PROTO_NAME_BYTES_MAX) &&
           proto_text_fits(enroll->head_address, PROTO_ENDPOINT_BYTES - 1);
}

/* One component of a path. */
static bool is_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static bool file_fits(const Ringfence__Control__File *file)
{
    return proto_text_fits(file->key, PROTO_FILE_KEY_BYTES_MAX) &&
           proto_text_fits(file->name, PROTO_NAME_BYTES_MAX - 1) &&
           (file->name[0] == '\0' || is_name(file->name)) && file->size_bytes <= INT64_MAX &&
           file->sha256.len == PROTO_DIGEST_BYTES;
}

static bool chunk_fits(const Ringfence__Control__Chunk *chunk)
{
    return chunk->data.len > 0 && chunk->data.len <= PROTO_CHUNK_BYTES_MAX &&
           chunk->offset <= INT64_MAX - PROTO_CHUNK_BYTES_MAX;
}

static bool heartbeat_fits(const Ringfence__Control__Heartbeat *heartbeat)
{
    return heartbeat->have_bytes <= heartbeat->files_bytes;
}

static bool exited_fits(const Ringfence__Control__Exited *exited)
{
    return exited->rank < BASE_RANKS_MAX &&
           (exited->by_signal ? exited->status > 0 && signal_fits(exited->status)
                              : exited->status <= EXIT_CODE_MAX) &&
           proto_text_fits(exited->reason, PROTO_NAME_BYTES_MAX) &&
           (exited->state == NULL || (exited->state->size_bytes > 0 && file_fits(exited->state)));
}

bool proto_agent_body_fits(const envelope_type *envelope, int nodes)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ENROLL:
        return enroll_fits(envelope->enroll, nodes);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STARTED:
        return envelope->started->rank < BASE_RANKS_MAX && envelope->started->pid > 0 &&
               envelope->started->cpus.len <= PROTO_CPU_BITS_BYTES_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PRINTED:
        return envelope->printed->rank < BASE_RANKS_MAX &&
               envelope->printed->data.len <= PROTO_PRINTED_BYTES_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HALTED:
        return envelope->halted->rank < BASE_RANKS_MAX && signal_fits(envelope->halted->signal);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXITED:
        return exited_fits(envelope->exited);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ASKED:
        return envelope->asked->signal > 0 && signal_fits(envelope->asked->signal);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE:
        return proto_text_fits(envelope->refuse->reason, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH:
        return envelope->fetch->file < PROTO_FILES_MAX && envelope->fetch->offset <= INT64_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK:
        return envelope->chunk->file < BASE_RANKS_MAX && chunk_fits(envelope->chunk);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PREPARED:
        return envelope->prepared->files <= PROTO_FILES_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT:
        return heartbeat_fits(envelope->heartbeat);
    default:
        return false;
    }
}

static bool files_fit(Ringfence__Control__File *const *files, size_t count)
{
    bool fit = count <= PROTO_FILES_MAX;
    for (size_t i = 0; fit && i < count; i++) {
        fit = file_fits(files[i]);
    }
    return fit;
}

static bool host_timeout_fits(int64_t timeout_ms)
{
    return timeout_ms > 0 && timeout_ms <= PROTO_HOST_TIMEOUT_MAX_MS;
}

static bool assign_fits(const Ringfence__Control__Assign *assign)
{
    base_ports ports;
    return assign->world_size > 0 && assign->world_size <= BASE_RANKS_MAX && assign->ranks > 0 &&
           assign->ranks <= assign->world_size &&
           assign->first_rank <= assign->world_size - assign->ranks &&
           assign->job.len <= PROTO_JOB_BYTES_MAX && host_timeout_fits(assign->host_timeout_ms) &&
           base_ports_parse(assign->ports, &ports) && files_fit(assign->files, assign->n_files);
}

static bool begin_fits(const Ringfence__Control__Begin *begin)
{
    return begin->port > 0 && begin->port <= PORT_MAX && begin->master_port <= PORT_MAX &&
           begin->launcher_public_key.len == PROTO_KEY_BYTES &&
           begin->rank_seed.len == PROTO_KEY_BYTES &&
           begin->collectives_key.len == PROTO_KEY_BYTES && begin->local_ranks > 0 &&
           begin->local_ranks <= BASE_RANKS_MAX && begin->local_first < begin->local_ranks;
}

static bool lease_fits(const Ringfence__Control__Lease *lease)
{
    return lease->rank < BASE_RANKS_MAX && lease->attempt > 0 &&
           lease->attempt <= PROTO_ATTEMPTS_MAX && lease->token[0] != '\0' &&
           proto_text_fits(lease->token, PROTO_LEASE_TOKEN_BYTES - 1) &&
           lease->receipt[0] != '\0' &&
           proto_text_fits(lease->receipt, PROTO_LEASE_TOKEN_BYTES - 1);
}

bool proto_head_body_fits(const envelope_type *envelope)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ASSIGN:
        return assign_fits(envelope->assign);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE:
        return proto_text_fits(envelope->refuse->reason, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_BEGIN:
        return begin_fits(envelope->begin);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_LEASE:
        return lease_fits(envelope->lease);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_SIGNAL:
        return envelope->signal->rank < BASE_RANKS_MAX && envelope->signal->signal > 0 &&
               signal_fits(envelope->signal->signal);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_END:
        return envelope->end->exit_code <= EXIT_CODE_MAX &&
               proto_text_fits(envelope->end->reason, PROTO_REASON_BYTES_MAX);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH:
        return envelope->fetch->file < BASE_RANKS_MAX && envelope->fetch->offset <= INT64_MAX;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK:
        return envelope->chunk->file < PROTO_FILES_MAX && chunk_fits(envelope->chunk);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT:
        return heartbeat_fits(envelope->heartbeat);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_WAIT:
        return host_timeout_fits(envelope->wait->host_timeout_ms);
    default:
        return false;
    }
}
