/* gpu-measure: see measure.h. Started by tests/gpu/run.sh. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "support.h"

enum { CHAIN_WIDTH = 1024, CHAIN_WIDTH_MAX = 1 << 14, CHAIN_TIMES = 50 };

static const char usage[] =
    "Usage: gpu-measure contact PLUGIN kernels|graph|signals|collective\n"
    "       gpu-measure contact PLUGIN overlap [WIDTH TIMES]           (default: 1024 50)\n"
    "       gpu-measure copy PLUGIN MIB\n"
    "       gpu-measure all-reduce PLUGIN\n"
    "       launcher --ranks N -- gpu-measure all-reduces PLUGIN MIB\n"
    "       gpu-measure logits PLUGIN BACKEND CHECKPOINT TOKENS OUT   (BACKEND cpu: no PLUGIN)\n"
    "       gpu-measure answers CHECKPOINT EXPECTED.json FOUND.json\n"
    "       gpu-measure data TOKENIZER.json DIRECTORY WORDS\n";

base_status measure_open(const char *plugin, const char *backend, gpu_plugin *opened,
                         rank_device *device, base_error *reterr)
{
    *device = (rank_device){.backend = NULL};
    if (strcmp(backend, "cpu") == 0) {
        return rank_device_open("cpu", device, reterr);
    }
    base_status status = gpu_plugin_open(plugin, opened, reterr);
    if (status == BASE_OK) {
        status = opened->table->use_gpu(0, reterr);
    }
    return status == BASE_OK ? rank_device_open_of(opened->table->backends, backend, device, reterr)
                             : status;
}

/* contact PLUGIN WHAT [WIDTH TIMES] */
static base_status contact(char *const *given, int count, base_error *reterr)
{
    const bool of_chain = strcmp(given[1], "overlap") == 0;
    if (!of_chain) {
        return measure_contact(given[0], given[1], reterr);
    }
    const unsigned long width = count == 4 ? strtoul(given[2], NULL, 10) : CHAIN_WIDTH;
    const long times = count == 4 ? strtol(given[3], NULL, 10) : CHAIN_TIMES;
    if (width == 0 || width % 4 != 0 || width > CHAIN_WIDTH_MAX || times < 1 || times > INT_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "no width and times of a chain");
    }
    return measure_overlap(given[0], width, (int)times, reterr);
}

static base_status logits(char *const *given, base_error *reterr)
{
    gpu_plugin plugin;
    rank_device device;
    const int tokens = (int)strtol(given[3], NULL, 10);
    base_status status = measure_open(given[0], given[1], &plugin, &device, reterr);
    if (status == BASE_OK) {
        status = measure_logits(&device, given[2], tokens, given[4], reterr);
    }
    rank_device_close(&device);
    return status;
}

int main(int argc, char **argv)
{
    base_error error = {.message = ""};
    base_status status = BASE_ERR_NOTFOUND;
    char *const *given = argv + 2;
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "contact") == 0 &&
        (argc == 4 || (argc == 6 && strcmp(given[1], "overlap") == 0))) {
        status = contact(given, argc - 2, &error);
    } else if (strcmp(command, "copy") == 0 && argc == 4) {
        status = measure_copy(given[0], (size_t)strtoul(given[1], NULL, 10) << 20, &error);
    } else if (strcmp(command, "all-reduce") == 0 && argc == 3) {
        status = measure_all_reduce(given[0], &error);
    } else if (strcmp(command, "all-reduces") == 0 && argc == 4) {
        status = measure_all_reduces(given[0], (size_t)strtoul(given[1], NULL, 10) << 20, &error);
    } else if (strcmp(command, "logits") == 0 && argc == 7) {
        status = logits(given, &error);
    } else if (strcmp(command, "answers") == 0 && argc == 5) {
        status = measure_answers(given[0], given[1], given[2], &error);
    } else if (strcmp(command, "data") == 0 && argc == 5) {
        status = measure_write_data(given[0], given[1], (int)strtol(given[2], NULL, 10), &error);
    } else {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (status == BASE_OK) {
        return 0;
    }
    (void)fprintf(stderr, "gpu-measure: %s\n", error.message);
    return status == BASE_ERR_UNSUPPORTED ? TEST_EXIT_SKIPPED : 1;
}
