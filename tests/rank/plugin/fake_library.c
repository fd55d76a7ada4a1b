/* What stands for libcuda and cublasLt in test_plugin.c. */
int fake_library(void);
int fake_library(void)
{
    return 0;
}
