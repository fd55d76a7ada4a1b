/* `launcher compare A B`: compares two checkpoints tensor by tensor and reports the largest
 * differences. Called by cli.c. */
#include "record/compare.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "record/saved_state.h"

enum {
    DIFFERENCES_SHOWN = 20, /* tensors listed one by one */
};

/* How two tensors of the same type and shape differ. */
typedef struct tensor_difference {
    size_t count; /* values with other bits */
    size_t first; /* index of the first of them */
    double max_abs;
    bool numeric; /* max_abs has a meaning */
} tensor_difference;

typedef struct comparison {
    const launch_saved_state *a;
    const launch_saved_state *b;
    FILE *stream;
    size_t values;
    size_t differing_values;
    size_t differing_tensors; /* including those that one file lacks, and those of another shape */
    size_t only_a;            /* tensors that b lacks */
    size_t only_b;
    double max_abs;
    const char *max_abs_name; /* NULL: no numeric difference seen */
} comparison;

static const char *bare_name(const char *name)
{
    static const char PREFIX[] = "transformer.";
    return strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 ? name + sizeof PREFIX - 1 : name;
}

static const launch_state_tensor *find_bare(const launch_saved_state *state, const char *name)
{
    for (size_t i = 0; i < state->tensor_count; i++) {
        if (strcmp(bare_name(state->tensors[i].about->name), bare_name(name)) == 0) {
            return &state->tensors[i];
        }
    }
    return NULL;
}

static const uint8_t *value_at(const launch_state_tensor *tensor, size_t index)
{
    return tensor->values + index * tensor->about->element_bytes;
}

/* The value as a number. False for types that are only compared bit by bit. */
static bool read_number(const char *dtype, const uint8_t *bytes, double *number)
{
    float single = 0;
    int32_t word = 0;
    uint32_t bits = 0;
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&single, bytes, sizeof single);
        *number = single;
    } else if (strcmp(dtype, "F64") == 0) {
        memcpy(number, bytes, sizeof *number);
    } else if (strcmp(dtype, "BF16") == 0) {
        bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
        memcpy(&single, &bits, sizeof single);
        *number = single;
    } else if (strcmp(dtype, "I32") == 0) {
        memcpy(&word, bytes, sizeof word);
        *number = word;
    } else {
        return false;
    }
    return true;
}

static tensor_difference difference_of(const launch_state_tensor *left,
                                       const launch_state_tensor *right)
{
    const base_safetensor *about = left->about;
    tensor_difference found = {0};
    if (memcmp(value_at(left, 0), value_at(right, 0), about->size_bytes) == 0) {
        return found;
    }
    for (size_t i = 0; i < about->count; i++) {
        const uint8_t *one = value_at(left, i);
        const uint8_t *other = value_at(right, i);
        double x = 0;
        double y = 0;
        if (memcmp(one, other, about->element_bytes) == 0) {
            continue;
        }
        found.first = found.count++ == 0 ? i : found.first;
        if (read_number(about->dtype, one, &x) && read_number(about->dtype, other, &y)) {
            const double difference = x == y ? 0 : fabs(x - y); /* x == y: -0, or two infinities */
            found.numeric = true;
            if (!isnan(found.max_abs) && !(difference <= found.max_abs)) {
                found.max_abs = difference;
            }
        }
    }
    return found;
}

/* Prints the address of the value at index: name[i, j]. */
static void print_address(FILE *stream, const base_safetensor *tensor, size_t index)
{
    size_t block = tensor->count;
    (void)fprintf(stream, "%s[", bare_name(tensor->name));
    for (int d = 0; d < tensor->dims; d++) {
        block /= tensor->shape[d];
        (void)fprintf(stream, "%s%zu", d > 0 ? ", " : "", index / block);
        index %= block;
    }
    (void)fputs("]", stream);
}

static void print_value(FILE *stream, const char *dtype, const uint8_t *bytes, size_t size_bytes)
{
    double number = 0;
    if (read_number(dtype, bytes, &number)) {
        (void)fprintf(stream, "%.9g ", number);
    }
    (void)fputs("(bytes", stream);
    for (size_t i = 0; i < size_bytes; i++) {
        (void)fprintf(stream, " %02x", bytes[i]);
    }
    (void)fputs(")", stream);
}

static void report_difference(comparison *work, const launch_state_tensor *left,
                              const launch_state_tensor *right, const tensor_difference *found)
{
    const base_safetensor *about = left->about;
    if (work->differing_tensors == 0) {
        (void)fputs("first difference: ", work->stream);
        print_address(work->stream, about, found->first);
        (void)fputs(" is ", work->stream);
        print_value(work->stream, about->dtype, value_at(left, found->first), about->element_bytes);
        (void)fputs(" against ", work->stream);
        print_value(work->stream, about->dtype, value_at(right, found->first),
                    about->element_bytes);
        (void)fputs("\n", work->stream);
    }
    if (work->differing_tensors < DIFFERENCES_SHOWN) {
        (void)fprintf(work->stream, "  %s: %zu of %zu values differ", bare_name(about->name),
                      found->count, about->count);
        if (found->numeric) {
            (void)fprintf(work->stream, ", by at most %.9g", found->max_abs);
        }
        (void)fputs("\n", work->stream);
    }
}

static bool same_kind(const base_safetensor *left, const base_safetensor *right)
{
    return strcmp(left->dtype, right->dtype) == 0 && left->dims == right->dims &&
           memcmp(left->shape, right->shape, (size_t)left->dims * sizeof left->shape[0]) == 0;
}

static void compare_tensor(comparison *work, const launch_state_tensor *left)
{
    const char *name = bare_name(left->about->name);
    const launch_state_tensor *right = find_bare(work->b, name);
    if (right == NULL) {
        (void)fprintf(work->stream, "  %s: not in %s\n", name, work->b->path);
        work->differing_tensors++;
        work->only_a++;
        return;
    }
    if (!same_kind(left->about, right->about)) {
        (void)fprintf(work->stream, "  %s: another type or shape\n", name);
        work->differing_tensors++;
        return;
    }
    const tensor_difference found = difference_of(left, right);
    work->values += left->about->count;
    if (found.count == 0) {
        return;
    }
    report_difference(work, left, right, &found);
    work->differing_tensors++;
    work->differing_values += found.count;
    if (found.numeric && (work->max_abs_name == NULL ||
                          (!isnan(work->max_abs) && !(found.max_abs <= work->max_abs)))) {
        work->max_abs = found.max_abs;
        work->max_abs_name = name;
    }
}

static void compare_all(comparison *work)
{
    for (size_t i = 0; i < work->a->tensor_count; i++) {
        compare_tensor(work, &work->a->tensors[i]);
    }
    for (size_t i = 0; i < work->b->tensor_count; i++) {
        const char *name = bare_name(work->b->tensors[i].about->name);
        if (find_bare(work->a, name) == NULL) {
            (void)fprintf(work->stream, "  %s: not in %s\n", name, work->a->path);
            work->differing_tensors++;
            work->only_b++;
        }
    }
}

static launch_likeness likeness_of(const comparison *work)
{
    if (launch_saved_state_same_bytes(work->a, work->b)) {
        return LAUNCH_SAME_BYTES;
    }
    return work->differing_tensors == 0 ? LAUNCH_SAME_TENSORS : LAUNCH_DIFFERENT;
}

static void print_verdict(const comparison *work, launch_likeness likeness)
{
    const size_t tensors = work->a->tensor_count;
    FILE *stream = work->stream;
    switch (likeness) {
    case LAUNCH_SAME_BYTES:
        (void)fprintf(stream, "byte-equal: %zu bytes, %zu tensors, %zu values\n",
                      work->a->size_bytes, tensors, work->values);
        break;
    case LAUNCH_SAME_TENSORS:
        (void)fprintf(stream,
                      "equal: %zu tensors, %zu values, bit for bit; the files themselves differ in "
                      "their headers, order or number\n",
                      tensors, work->values);
        break;
    case LAUNCH_DIFFERENT:
        if (work->differing_tensors > DIFFERENCES_SHOWN) {
            (void)fputs("  …\n", stream);
        }
        (void)fprintf(stream, "different: %zu tensors of %zu, %zu values of %zu",
                      work->differing_tensors, tensors + work->only_b, work->differing_values,
                      work->values);
        if (work->only_a + work->only_b > 0) {
            (void)fprintf(stream, "; tensors only in A: %zu, only in B: %zu", work->only_a,
                          work->only_b);
        }
        if (work->max_abs_name != NULL) {
            (void)fprintf(stream, "; the largest difference is %.9g, in %s", work->max_abs,
                          work->max_abs_name);
        }
        (void)fputs("\n", stream);
        break;
    }
}

static base_status compare_files(const char *a, const char *b, FILE *stream,
                                 launch_likeness *likeness, base_error *reterr)
{
    launch_saved_state left = {.file_count = 0};
    launch_saved_state right = {.file_count = 0};
    base_status status = launch_saved_state_open(a, &left, reterr);
    if (status == BASE_OK) {
        status = launch_saved_state_open(b, &right, reterr);
    }
    if (status == BASE_OK) {
        comparison work = {.a = &left, .b = &right, .stream = stream};
        compare_all(&work);
        *likeness = likeness_of(&work);
        print_verdict(&work, *likeness);
        if (fflush(stream) != 0 || ferror(stream)) {
            status = base_fail(reterr, BASE_ERR_IO, "cannot write the result");
        }
    }
    launch_saved_state_close(&left);
    launch_saved_state_close(&right);
    return status;
}

static bool has_moments(const char *path, const char *name, char file[LAUNCH_STATE_PATH_BYTES])
{
    (void)snprintf(file, LAUNCH_STATE_PATH_BYTES, "%s/%s", path, name);
    return access(file, F_OK) == 0;
}

/* Two checkpoints have the optimizer's moments, too. A directory without any of them is a model. */
base_status launch_compare(const char *a, const char *b, FILE *stream, launch_likeness *likeness,
                           base_error *reterr)
{
    static const char *const moments[] = {"exp_avg.safetensors", "exp_avg_sq.safetensors"};
    enum { MOMENTS = sizeof moments / sizeof *moments };
    char files[2][LAUNCH_STATE_PATH_BYTES];
    base_status status = compare_files(a, b, stream, likeness, reterr);
    bool of_a = false;
    bool of_b = false;
    for (int i = 0; i < MOMENTS; i++) {
        of_a = has_moments(a, moments[i], files[0]) || of_a;
        of_b = has_moments(b, moments[i], files[1]) || of_b;
    }
    for (int i = 0; status == BASE_OK && of_a && of_b && i < MOMENTS; i++) {
        launch_likeness found = LAUNCH_DIFFERENT;
        const bool in_a = has_moments(a, moments[i], files[0]);
        const bool in_b = has_moments(b, moments[i], files[1]);
        (void)fprintf(stream, "%s\n", moments[i]);
        if (in_a && in_b) {
            status = compare_files(files[0], files[1], stream, &found, reterr);
        } else {
            (void)fprintf(stream, "  not in %s\n", in_a ? b : a);
        }
        *likeness = found > *likeness ? found : *likeness;
    }
    return status;
}
