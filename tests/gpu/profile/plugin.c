/* ringfence-cuda.so that writes down when each kernel and copy ran, by CUPTI, for whoever looks where a
 * step's time goes. rank loads it as the plugin where it lies in the plugin's place; all else is the
 * plugin's own. With RINGFENCE_PROFILE=FILE a line for each goes to FILE when the process ends:
 *   START_NS NANOSECONDS STREAM BLOCKS THREADS NAME
 * It is not for figures of speed: to trace costs time. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

#include "hang/hang.h"

enum { BUFFER_BYTES = 8 << 20, BUFFER_ALIGNMENT = 8, MEMORY_THREADS = 0 };

static FILE *file;

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size_bytes, size_t *records_max)
{
    *buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *size_bytes = *buffer != NULL ? BUFFER_BYTES : 0;
    *records_max = 0;
}

static void write_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
        (void)fprintf(file, "%llu %llu %u %d %d %s\n", (unsigned long long)kernel->start,
                      (unsigned long long)(kernel->end - kernel->start), kernel->streamId,
                      kernel->gridX * kernel->gridY * kernel->gridZ,
                      kernel->blockX * kernel->blockY * kernel->blockZ, kernel->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *copy = (const CUpti_ActivityMemcpy6 *)record;
        (void)fprintf(file, "%llu %llu %u %llu %d copy_of_kind_%d\n",
                      (unsigned long long)copy->start,
                      (unsigned long long)(copy->end - copy->start), copy->streamId,
                      (unsigned long long)copy->bytes, MEMORY_THREADS, copy->copyKind);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *set = (const CUpti_ActivityMemset4 *)record;
        (void)fprintf(file, "%llu %llu %u %llu %d set\n", (unsigned long long)set->start,
                      (unsigned long long)(set->end - set->start), set->streamId,
                      (unsigned long long)set->bytes, MEMORY_THREADS);
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer,
                                 size_t size_bytes, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)size_bytes;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
        write_record(record);
    }
    free(buffer);
}

static void flush(void)
{
    (void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    (void)fclose(file);
}

static void begin(const char *path)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                               CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMSET};
    file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return;
    }
    CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (size_t i = 0; result == CUPTI_SUCCESS && i < sizeof kinds / sizeof *kinds; i++) {
        result = cuptiActivityEnable(kinds[i]);
    }
    if (result != CUPTI_SUCCESS) {
        const char *why = "";
        (void)cuptiGetResultString(result, &why);
        (void)fprintf(stderr, "CUPTI: %s\n", why);
    }
    (void)atexit(flush);
}

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    static rank_cuda_plugin none; /* of zeros where there is no plugin: rank refuses it */
    const char *path = getenv("RINGFENCE_PROFILE");
    if (path != NULL && file == NULL) {
        begin(path);
    }
    const rank_cuda_plugin *plugin = gpu_hang_real();
    return plugin != NULL ? plugin : &none;
}
