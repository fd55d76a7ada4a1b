/* Gathers what a record says of machine, build and load: host, CPU, memory, compiler, steal time.
 * Called by record.c. */
#include "record/run_info.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/kernel_file.h"
#include "base/utf8.h"
#include "base/version.h"
#include "build_info.h"
#include "record/run.h"

/* The value after "model name : " in /proc/cpuinfo, which x86 has. The CPU of other machines has no
 * name. */
static void find_cpu_model(char *model, size_t size_bytes)
{
    char line[512];
    FILE *info = fopen("/proc/cpuinfo", "re");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, "model name", strlen("model name")) == 0) {
            line[strcspn(line, "\n")] = '\0';
            base_utf8_copy(model, size_bytes, colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    if (info != NULL) {
        (void)fclose(info);
    }
}

static void find_machine(launch_run_info *info)
{
    struct utsname system;
    cpu_set_t allowed;
    if (uname(&system) == 0) {
        base_utf8_copy(info->host, sizeof info->host, system.nodename);
        (void)snprintf(info->kernel, sizeof info->kernel, "%.60s %.80s %.60s", system.sysname,
                       system.release, system.machine);
    }
    find_cpu_model(info->cpu, sizeof info->cpu);
    info->cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    info->cpus_allowed = info->cpus_online;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        info->cpus_allowed = CPU_COUNT(&allowed);
    }
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) {
        info->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    }
}

/* The shortest form of a path: links resolved, and relative if it is below the current
 * directory. */
static void shorten_path(const char *path, char *shortened, size_t size_bytes)
{
    char here[BASE_PATH_BYTES];
    char *real = realpath(path, NULL);
    const char *rest = real != NULL ? real : path;
    if (real != NULL && getcwd(here, sizeof here) != NULL) {
        const size_t length = strlen(here);
        if (strncmp(real, here, length) == 0 && real[length] == '/') {
            rest = real + length + 1;
        }
    }
    base_utf8_copy(shortened, size_bytes, rest);
    free(real);
}

double launch_load_average(void)
{
    double load = NAN;
    return getloadavg(&load, 1) == 1 ? load : NAN;
}

/* Reads the first line of /proc/stat: user nice system idle iowait irq softirq steal. The guests'
 * time that follows is in user and nice already. */
launch_cpu_times launch_cpu_times_now(void)
{
    enum { STEAL = 7, FIELDS = 8 };
    launch_cpu_times times = {0};
    char line[512] = "";
    if (base_kernel_line(line, sizeof line, "/proc/stat") && strncmp(line, "cpu ", 4) == 0) {
        char *at = line + 4;
        for (int i = 0; i < FIELDS; i++) {
            const uint64_t ticks = strtoull(at, &at, 10);
            times.all += ticks;
            times.stolen += i == STEAL ? ticks : 0;
        }
    }
    return times;
}

double launch_steal_share(launch_cpu_times before, launch_cpu_times after)
{
    if (before.all == 0 || after.all <= before.all || after.stolen < before.stolen) {
        return NAN;
    }
    return (double)(after.stolen - before.stolen) / (double)(after.all - before.all);
}

void launch_run_info_gather(launch_run_info *info, const launch_file_digest *data)
{
    memset(info, 0, sizeof *info);
    info->load_before = NAN;
    info->steal_share = NAN;
    find_machine(info);
    if (data->path[0] != '\0') {
        shorten_path(data->path, info->data_path, sizeof info->data_path);
    }
    if (data->known) {
        info->data_bytes = data->size_bytes;
        proto_digest_hex(data->sha256, info->data_sha256);
    }
    info->version = base_version();
    info->git_commit = base_version_commit();
    info->compiler = LAUNCH_BUILD_COMPILER;
    info->compiler_flags = LAUNCH_BUILD_FLAGS;
    info->sanitizers = LAUNCH_BUILD_SANITIZE;
}

void launch_run_command(const launch_run *run, base_buffer *text)
{
    for (int i = 0; i < run->argc; i++) {
        base_buffer_put(text, i > 0 ? " " : "");
        base_buffer_shell(text, run->argv[i]);
    }
}

void launch_run_backend(const launch_record_end *end, base_buffer *text)
{
    base_buffer_put(text, "ringfence");
    if (end->transport != NULL && end->transport[0] != '\0') {
        base_buffer_printf(text, "-%s", end->transport);
    }
    if (end->algorithm != NULL && end->algorithm[0] != '\0') {
        base_buffer_printf(text, "-%s", end->algorithm);
    }
}
