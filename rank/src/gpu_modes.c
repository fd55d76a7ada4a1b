/* Modes ddp-nccl and tp-nccl: those of the CPU, on a GPU. Loads the plugin behind the gate, begins
 * NCCL, and tells the launcher what was found. Called by modes.c.
 *
 * A rank sees one GPU only, its own. So a rank that works alone (--baseline) cannot use another
 * one's, and GPU 0 of the process is the right one everywhere. */
#include <control.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "coll/backend.h"
#include "generate/mode.h"
#include "modes.h"
#include "proto/limits.h"
#include "ringfence/coll_error.h"
#include "train/mode.h"

enum { VALUE_BYTES = 64 };

/* Lines, cut where the room ends. */
typedef struct lines {
    char text[PROTO_GPU_TEXT_BYTES_MAX];
    size_t used;
} lines;

static void add_line(lines *to, const char *line)
{
    const size_t length = strlen(line);
    if (to->used + length + 2 <= sizeof to->text) {
        memcpy(to->text + to->used, line, length);
        to->used += length;
        to->text[to->used++] = '\n';
        to->text[to->used] = '\0';
    }
}

/* Which GPU this rank may see: that of the job; of a process that was given only some, that number
 * among them. `given` is CUDA_VISIBLE_DEVICES; NULL: it sees all. */
static base_status choose_device(const proto_job *job, int local_rank, const char *given,
                                 char device[PROTO_DEVICE_BYTES], base_error *reterr)
{
    proto_job_device(job, local_rank, device);
    if (given == NULL || job->gpu.devices[0] != '\0') {
        return BASE_OK;
    }
    const char *at = given;
    for (long skip = strtol(device, NULL, 10); skip > 0 && at != NULL; skip--) {
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    const size_t length = at != NULL ? strcspn(at, ",") : 0;
    if (length == 0 || length >= PROTO_DEVICE_BYTES) {
        return base_fail(
            reterr, BASE_ERR_UNSUPPORTED,
            "there is no GPU for rank %d of this host: CUDA_VISIBLE_DEVICES is '%.64s'", local_rank,
            given);
    }
    memcpy(device, at, length);
    device[length] = '\0';
    return BASE_OK;
}

/* Two ranks on one GPU: NCCL takes them for two hosts, and sends through sockets. */
static void share_gpu(int rank)
{
    char host[VALUE_BYTES];
    (void)snprintf(host, sizeof host, "ringfence-test-%d", rank);
    (void)setenv("NCCL_HOSTID", host, 1);
    (void)setenv("NCCL_NET", "Socket", 1);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    (void)setenv("NCCL_MNNVL_ENABLE", "0", 1);
    (void)setenv("NCCL_MAX_CTAS", "2", 1);
    base_log(BASE_LOG_WARNING, "a test arrangement: all ranks use one GPU");
}

/* What CUDA and NCCL read. No other thread runs yet. */
static base_status set_environment(const rank_worker *worker, char device[PROTO_DEVICE_BYTES],
                                   base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    base_status status = proto_job_check_devices(job, worker->identity.local_world_size, reterr);
    if (status == BASE_OK) {
        status = choose_device(job, worker->identity.local_rank, given, device, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (given == NULL ||
        job->gpu.devices[0] != '\0') { /* else its numbers are in the user's order */
        (void)setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* as launcher gpus counts them */
    }
    (void)setenv("CUDA_VISIBLE_DEVICES", device, 1);
    if (!job->gpu.nccl_native && getenv("NCCL_ALGO") == NULL) {
        (void)setenv("NCCL_ALGO", "^NVLS,NVLSTree", 1);
        (void)setenv("NCCL_NVLS_ENABLE", "0", 0); /* else NCCL makes ready what it may not use */
    }
    /* In graphs NCCL registers what is sent and what is received each by itself, and sender and receiver
     * wait for each other for ever where it has got one of the two only. */
    (void)setenv("NCCL_GRAPH_REGISTER", "0", 0);
    (void)setenv("NCCL_DEBUG", "WARN", 0);   /* why NCCL fails, in the rank's own output */
    (void)setenv("NCCL_RAS_ENABLE", "0", 0); /* it would listen at a fixed port */
    if (job->gpu.shared) {
        share_gpu(worker->identity.rank);
    }
    return BASE_OK;
}

/* Binds the process near the GPU before it makes a context there: that has threads and pinned
 * memory. */
static base_status use_gpu(rank_gpu *gpu, base_error *reterr)
{
    const rank_cuda_plugin *table = gpu->plugin.table;
    const char *binds = getenv("RINGFENCE_BIND_TO_GPU");
    base_status status = table->describe_gpu(0, &gpu->info, reterr);
    gpu->near.numa_node = -1;
    if (status == BASE_OK && binds != NULL && strcmp(binds, "1") == 0) {
        rank_near_bind("/sys", gpu->info.pci, &gpu->near);
    }
    if (status == BASE_OK) {
        status = table->use_gpu(0, reterr);
    }
    if (status == BASE_OK && table->collectives == NULL) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s was built without NCCL",
                           gpu->plugin.paths[RANK_LIBRARY_PLUGIN]);
    }
    return status;
}

base_status rank_cloud_open_gpu(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    const proto_job_gpu *wanted = &worker->identity.job.gpu;
    char device[PROTO_DEVICE_BYTES] = "";
    rank_gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a GPU");
    }
    worker->gpu = gpu;
    gpu->collectives = (coll_nccl_options){.size = sizeof gpu->collectives,
                                           .device = 0,
                                           .shares_gpu = wanted->shared,
                                           .mixes_cards = wanted->mixed};
    base_status status = set_environment(worker, device, reterr);
    if (status == BASE_OK) {
        status = rank_plugin_load(pass, wanted->libraries, &gpu->plugin, reterr);
    }
    if (status == BASE_OK) {
        status = use_gpu(gpu, reterr);
    }
    if (status == BASE_OK) {
        return BASE_OK;
    }
    worker->exit_code = status == BASE_ERR_UNSUPPORTED ? BASE_EXIT_NO_GPU : BASE_EXIT_ERROR;
    return base_error_prepend(reterr, status, "GPU %s", device);
}

static bool is_of_gpu(const char *variable)
{
    static const char *const prefixes[] = {"NCCL_", "CUDA_", "CUBLAS", "NVIDIA_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The files that NCCL reads its settings from, where they are there. */
static void list_settings(lines *to)
{
    char path[BASE_PATH_BYTES];
    const char *home = getenv("HOME");
    const char *named = getenv("NCCL_CONF_FILE");
    (void)snprintf(path, sizeof path, "%s/.nccl.conf", home != NULL ? home : "");
    const char *const files[] = {named != NULL ? named : path, "/etc/nccl.conf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (access(files[i], R_OK) == 0) {
            add_line(to, files[i]);
        }
    }
}

static void pack_cpus(const cpu_set_t *cpus, uint8_t bits[PROTO_CPU_BITS_BYTES_MAX])
{
    memset(bits, 0, PROTO_CPU_BITS_BYTES_MAX);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && cpu / 8 < PROTO_CPU_BITS_BYTES_MAX; cpu++) {
        bits[cpu / 8] |= (uint8_t)(CPU_ISSET(cpu, cpus) ? 1U << (cpu % 8) : 0);
    }
}

/* Tells the launcher what this rank computes on. */
static void report_gpu(const rank_worker *worker)
{
    static lines libraries; /* static, since they are large, and a process does this once */
    static lines environment;
    rank_gpu *gpu = worker->gpu;
    char plugin[VALUE_BYTES];
    uint8_t cpus[PROTO_CPU_BITS_BYTES_MAX];
    for (int i = 0; i < RANK_LIBRARY_COUNT; i++) {
        if (gpu->plugin.paths[i][0] != '\0') {
            add_line(&libraries, gpu->plugin.paths[i]);
        }
    }
    list_settings(&libraries);
    for (char **variable = environ; *variable != NULL; variable++) {
        if (is_of_gpu(*variable)) {
            add_line(&environment, *variable);
        }
    }
    (void)snprintf(plugin, sizeof plugin, "%s", gpu->plugin.table->version);
    Ringfence__Control__Gpu message = RINGFENCE__CONTROL__GPU__INIT;
    message.name = gpu->info.name;
    message.uuid = gpu->info.uuid;
    message.memory_bytes = gpu->info.memory_bytes;
    message.driver = (uint32_t)gpu->info.driver;
    message.nccl = (uint32_t)gpu->info.nccl;
    message.plugin = plugin;
    message.libraries = libraries.text;
    message.environment = environment.text;
    message.pci = gpu->info.pci;
    message.numa_node = gpu->near.numa_node;
    message.memory_near = gpu->near.memory_near;
    message.unbound = gpu->near.why_not;
    if (gpu->near.bound) {
        pack_cpus(&gpu->near.cpus, cpus);
        message.cpus = (ProtobufCBinaryData){sizeof cpus, cpus};
    }
    proto_client_gpu(worker->client, &message);
}

base_status rank_gpu_begin(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    BASE_ASSERT(pass != NULL);
    const base_status status =
        (base_status)coll_device_open(coll_context_world(worker->context), coll_error_of(reterr));
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "connecting the GPUs");
    }
    report_gpu(worker);
    return BASE_OK;
}

base_status rank_cloud_train(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    const base_status status = rank_gpu_begin(worker, pass, reterr);
    return status == BASE_OK ? rank_mode_train(worker, reterr) : status;
}

base_status rank_cloud_generate(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    const base_status status = rank_gpu_begin(worker, pass, reterr);
    return status == BASE_OK ? rank_mode_generate(worker, reterr) : status;
}
