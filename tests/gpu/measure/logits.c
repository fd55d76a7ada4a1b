/* Logits of a checkpoint's model, into a file: PyTorch's are compared with them. Called by main.c. */
#include <stdlib.h>

#include "base/file.h"
#include "measure.h"
#include "model.h"

enum { TOKENS_MAX = 1024 };

base_status measure_logits(const rank_device *device, const char *checkpoint, int token_count,
                           const char *out, base_error *reterr)
{
    int32_t ids[TOKENS_MAX];
    float *logits = NULL;
    measured_model m;
    if (token_count < 1 || token_count > TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "1 to %d tokens, not %d", TOKENS_MAX,
                         token_count);
    }
    base_status status =
        measured_model_open(&m, device, checkpoint, token_count, token_count, reterr);
    if (status == BASE_OK) {
        for (int i = 0; i < token_count; i++) {
            ids[i] = (int32_t)((7919LL * i + 13) % m.config.vocab_size);
        }
        status = measured_model_run(&m, ids, token_count, token_count, &logits, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_write(out, logits,
                                 (size_t)token_count * (size_t)m.config.vocab_size * sizeof *logits,
                                 reterr);
        free(logits);
    }
    measured_model_close(&m);
    return status;
}
