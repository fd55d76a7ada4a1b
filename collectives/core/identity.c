/* Finds out host, process and CPUs of this rank, and encodes them as a record of fixed size. Called
 * by connect.c when a context is made; transports ask it which ranks share a host. */
#include "core/identity.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/host.h"
#include "ringfence/coll_error.h"

enum { VERSION = 4 };

void coll_identity_get(coll_identity *identity)
{
    base_host host;
    base_host_get(&host);
    *identity = (coll_identity){.version = VERSION,
                                .pid = (uint32_t)getpid(),
                                .uid = (uint32_t)geteuid(),
                                .cpu_quota = (uint32_t)base_cgroup_cpu_quota(""),
                                .pid_namespace = host.pid_namespace,
                                .net_namespace = host.net_namespace};
    memcpy(identity->boot_id, host.boot_id, sizeof identity->boot_id);
    (void)snprintf(identity->host, sizeof identity->host, "%s",
                   host.hostname[0] != '\0' ? host.hostname : "?");
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int cpu = 0; cpu < 8 * COLL_CPUS_BYTES; cpu++) {
            if (CPU_ISSET(cpu, &set)) {
                identity->cpus[cpu / 8] |= (uint8_t)(1u << (cpu % 8));
            }
        }
    }
}

void coll_identity_encode(const coll_identity *identity, uint8_t record[COLL_IDENTITY_BYTES])
{
    memset(record, 0, COLL_IDENTITY_BYTES);
    base_writer writer = base_writer_make(record, COLL_IDENTITY_BYTES);
    base_write_u32(&writer, identity->version);
    base_write_u32(&writer, identity->rank);
    base_write_u32(&writer, identity->world_size);
    base_write_u32(&writer, identity->transport);
    base_write_u32(&writer, identity->algorithm);
    base_write_u32(&writer, identity->pid);
    base_write_u32(&writer, identity->uid);
    base_write_u32(&writer, identity->cpu_quota);
    base_write_u64(&writer, identity->pid_namespace);
    base_write_u64(&writer, identity->net_namespace);
    base_write_bytes(&writer, identity->boot_id, sizeof identity->boot_id);
    base_write_bytes(&writer, identity->host, sizeof identity->host);
    base_write_bytes(&writer, identity->cpus, sizeof identity->cpus);
}

/* Text for messages: whatever is not printable becomes a question mark. */
static void read_text(base_reader *reader, char *text, size_t size_bytes)
{
    const void *bytes = base_read_bytes(reader, size_bytes);
    if (bytes != NULL) {
        memcpy(text, bytes, size_bytes);
        text[size_bytes - 1] = '\0';
        for (char *at = text; *at != '\0'; at++) {
            *at = *at < ' ' || *at > '~' ? '?' : *at;
        }
    }
}

coll_status coll_identity_decode(const uint8_t record[COLL_IDENTITY_BYTES], coll_identity *identity,
                                 coll_error *reterr)
{
    base_reader reader = base_reader_make(record, COLL_IDENTITY_BYTES);
    *identity = (coll_identity){.version = base_read_u32(&reader)};
    identity->rank = base_read_u32(&reader);
    identity->world_size = base_read_u32(&reader);
    identity->transport = base_read_u32(&reader);
    identity->algorithm = base_read_u32(&reader);
    identity->pid = base_read_u32(&reader);
    identity->uid = base_read_u32(&reader);
    identity->cpu_quota = base_read_u32(&reader);
    identity->pid_namespace = base_read_u64(&reader);
    identity->net_namespace = base_read_u64(&reader);
    read_text(&reader, identity->boot_id, sizeof identity->boot_id);
    read_text(&reader, identity->host, sizeof identity->host);
    const void *cpus = base_read_bytes(&reader, sizeof identity->cpus);
    if (reader.failed || cpus == NULL) {
        return coll_fail(reterr, COLL_ERR_PEER, "a peer's identity record is too short");
    }
    memcpy(identity->cpus, cpus, sizeof identity->cpus);
    if (identity->version != VERSION) {
        return coll_fail(reterr, COLL_ERR_PEER, "a peer speaks version %u of libcoll, this is %d",
                         (unsigned)identity->version, VERSION);
    }
    return COLL_OK;
}

bool coll_identity_same_host(const coll_identity *a, const coll_identity *b)
{
    return a->boot_id[0] != '\0' && strcmp(a->boot_id, b->boot_id) == 0 && a->pid_namespace != 0 &&
           a->pid_namespace == b->pid_namespace && a->net_namespace != 0 &&
           a->net_namespace == b->net_namespace;
}

bool coll_identity_reaches_beyond(const coll_identity *all, int count, int rank)
{
    for (int peer = 0; peer < count; peer++) {
        if (peer != rank && !coll_identity_same_host(&all[peer], &all[rank])) {
            return true;
        }
    }
    return false;
}

int coll_identity_cpus(const coll_identity *all, int count, const coll_identity *mine)
{
    uint8_t united[COLL_CPUS_BYTES] = {0};
    uint32_t quota = 0;
    for (int i = 0; i < count; i++) {
        if (!coll_identity_same_host(&all[i], mine)) {
            continue;
        }
        for (int b = 0; b < COLL_CPUS_BYTES; b++) {
            united[b] |= all[i].cpus[b];
        }
        if (all[i].cpu_quota != 0 && (quota == 0 || all[i].cpu_quota < quota)) {
            quota = all[i].cpu_quota;
        }
    }
    int cpus = 0;
    for (int b = 0; b < COLL_CPUS_BYTES; b++) {
        cpus += __builtin_popcount(united[b]);
    }
    if (quota != 0 && (int)quota < cpus) {
        cpus = (int)quota;
    }
    return cpus > 0 ? cpus : 1;
}
