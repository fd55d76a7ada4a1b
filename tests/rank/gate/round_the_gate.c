/* Code that symbols.sh must find in a library: a call that avoids the gate, and one of a GPU
 * library. */
#ifdef ROUND_THE_GATE
int rank_cloud_gate_check(void *worker, void *pass);
int round_the_gate(void *worker);
int round_the_gate(void *worker)
{
    return rank_cloud_gate_check(worker, worker);
}
#else
int ncclGetVersion(int *version);
int call_a_gpu_library(int *version);
int call_a_gpu_library(int *version)
{
    return ncclGetVersion(version);
}
#endif
