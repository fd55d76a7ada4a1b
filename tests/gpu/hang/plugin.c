/* ringfence-cuda.so whose fourth layer norm never ends, for tests of what a hung kernel does to a job.
 * rank loads it as the plugin where it lies in the plugin's place. All else is the plugin's own. */
#include <stddef.h>

#include "hang.h"

enum { HANGS_AT = 4, BACKENDS_MAX = 4 };

static const rank_backend *real[BACKENDS_MAX + 1];
static rank_backend hanging[BACKENDS_MAX];
static const rank_backend *table_of_backends[BACKENDS_MAX + 1];
static int calls;

/* All backends of the plugin have this stream function. */
static void hang_in_turn(rank_queue *queue)
{
    if (++calls == HANGS_AT) {
        gpu_hang_run(real[0]->stream(queue));
    }
}

static void layernorm_of_first(rank_queue *queue, const rank_layernorm *args)
{
    hang_in_turn(queue);
    real[0]->layernorm(queue, args);
}

static void layernorm_of_second(rank_queue *queue, const rank_layernorm *args)
{
    hang_in_turn(queue);
    real[1]->layernorm(queue, args);
}

/* cuda and cuda-exact hang. */
static void fill(const rank_cuda_plugin *plugin)
{
    static void (*const layernorms[])(rank_queue *, const rank_layernorm *) = {layernorm_of_first,
                                                                               layernorm_of_second};
    for (int i = 0; i < BACKENDS_MAX && plugin->backends[i] != NULL; i++) {
        real[i] = plugin->backends[i];
        hanging[i] = *real[i];
        if (i < 2) {
            hanging[i].layernorm = layernorms[i];
        }
        table_of_backends[i] = &hanging[i];
    }
}

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    static rank_cuda_plugin table; /* of zeros where there is no plugin: rank refuses it */
    const rank_cuda_plugin *plugin = gpu_hang_real();
    if (plugin != NULL && table.backends == NULL) {
        fill(plugin);
        table = *plugin;
        table.backends = table_of_backends;
    }
    return &table;
}
