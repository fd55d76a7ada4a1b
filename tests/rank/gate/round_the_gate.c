/* Code that symbols.sh must find in a library: a call that avoids the gate, one of a GPU library,
 * one that loads a library, and one that loads the plugin. */
#ifdef ROUND_THE_GATE
int rank_cloud_gate_check(void *worker, void *pass);
int round_the_gate(void *worker);
int round_the_gate(void *worker)
{
    return rank_cloud_gate_check(worker, worker);
}
#elif defined(LOADS_LIBRARIES)
#include <dlfcn.h>
void *load_a_library(const char *path);
void *load_a_library(const char *path)
{
    return dlopen(path, RTLD_NOW);
}
#elif defined(LOADS_THE_PLUGIN)
int rank_plugin_load(const void *pass);
int load_the_plugin(const void *pass);
int load_the_plugin(const void *pass)
{
    return rank_plugin_load(pass);
}
#else
int ncclGetVersion(int *version);
int call_a_gpu_library(int *version);
int call_a_gpu_library(int *version)
{
    return ncclGetVersion(version);
}
#endif
