/* What symbols.sh must catch in a library: a way round the gate, and a call of a GPU library. */
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
