/* Writes coll-bench's results as JSON. Called by run.c for --output_file. */
#include "json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields_json.h"
#include "base/file.h"
#include "options.h"
#include "ringfence/coll_error.h"

enum { JSON_FLAGS = JSON_INDENT(1) | JSON_REAL_PRECISION(9) };

coll_status bench_json_check(const char *path, coll_error *reterr)
{
    return (coll_status)base_file_check_writable(path, base_error_of(reterr));
}

static json_t *column_json(const bench_column *column)
{
    json_t *wrong = column->wrong < 0 ? json_null() : json_integer(column->wrong);
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "time_us", column->time_us, "time_us_p50",
                     column->time_us_p50, "algbw", column->algbw, "busbw", column->busbw, "wrong",
                     wrong);
}

static json_t *row_json(const bench_row *row)
{
    return json_pack("{s:I, s:I, s:s, s:s, s:i, s:o, s:o}", "size", (json_int_t)row->size_bytes,
                     "count", (json_int_t)row->count, "type", coll_type_name(row->type), "redop",
                     row->reduce != 0 ? coll_reduce_op_name(row->reduce) : "none", "root",
                     row->root, "out_of_place", column_json(&row->columns[0]), "in_place",
                     column_json(&row->columns[1]));
}

static json_t *tune_row_json(const bench_tune_row *row)
{
    return json_pack("{s:I, s:s, s:f, s:f, s:b, s:b}", "size", (json_int_t)row->size_bytes,
                     "algorithm", coll_algorithm_name(row->algorithm), "predicted_us",
                     row->compared.predicted_us, "measured_us", row->compared.measured_us,
                     "eligible", (int)row->compared.eligible, "chosen", (int)row->compared.chosen);
}

static json_t *roofline_json(const bench_roofline *roofline)
{
    if (roofline == NULL) {
        return json_null();
    }
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "processors", roofline->processors,
                     "read_gb_per_s", roofline->read_one, "read_all_gb_per_s", roofline->read_all,
                     "copy_gb_per_s", roofline->copy_one, "copy_all_gb_per_s", roofline->copy_all,
                     "core_to_core_ns", roofline->core_to_core_ns);
}

coll_status bench_json_write(const char *path, const bench_options *options,
                             const bench_shared *shared, const bench_roofline *roofline,
                             coll_error *reterr)
{
    json_t *rows = json_array();
    json_t *tune = json_array();
    bool whole = rows != NULL && tune != NULL;
    for (int i = 0; whole && i < shared->row_count; i++) {
        whole = json_array_append_new(rows, row_json(&shared->rows[i])) == 0;
    }
    for (int i = 0; whole && i < shared->tune_row_count; i++) {
        whole = json_array_append_new(tune, tune_row_json(&shared->tune_rows[i])) == 0;
    }
    json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "collective",
                             bench_kind_name(options->kind), "ranks", options->ranks, "transport",
                             bench_transport_name((int)shared->transport), "algorithm",
                             coll_algorithm_name(shared->algorithm), "memory",
                             (int)options->transport == BENCH_TRANSPORT_NCCL ? "gpu"
                             : options->arena                                ? "arena"
                                                                             : "ordinary",
                             "options", base_fields_to_json(&bench_option_fields, options),
                             "roofline", roofline_json(roofline), "rows", rows, "tune", tune);
    if (root != NULL && !options->tune) {
        (void)json_object_del(root, "tune");
    }
    char *text = whole && root != NULL ? json_dumps(root, JSON_FLAGS) : NULL;
    json_decref(root);
    if (text == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for the results as JSON");
    }
    const size_t length = strlen(text);
    text[length] = '\n'; /* a line needs no final NUL */
    const base_status status = base_file_write(path, text, length + 1, base_error_of(reterr));
    free(text);
    return (coll_status)status;
}
