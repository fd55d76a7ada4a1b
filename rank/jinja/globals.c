/* Functions that every template has. Found by calls.c. */

#include "limits.h"
#include "row_tables.h"
#include "run.h"
#include "write.h"

/* The named arguments as a dict, behind those of a dict that may be the first. */
static jinja_dict *dict_of(jinja_run *run, const jinja_args *args)
{
    jinja_dict *dict = jinja_zeros(run->work, 1, sizeof *dict);
    if (args->count > 1 || (args->count == 1 && args->at[0].kind != JINJA_DICT)) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "a dict is made here of names or of a dict");
    }
    for (size_t i = 0; args->count == 1 && i < args->at[0].dict->count; i++) {
        jinja_dict_set(run->work, dict, args->at[0].dict->at[i].key, args->at[0].dict->at[i].value);
    }
    for (size_t i = 0; i < args->named_count; i++) {
        jinja_dict_set(run->work, dict, args->named[i].key, args->named[i].value);
    }
    return dict;
}

static jinja_value global_dict(jinja_run *run, const jinja_call *call)
{
    return (jinja_value){.kind = JINJA_DICT, .dict = dict_of(run, call->args)};
}

static jinja_value global_namespace(jinja_run *run, const jinja_call *call)
{
    return (jinja_value){.kind = JINJA_NAMESPACE, .dict = dict_of(run, call->args)};
}

static jinja_value global_range(jinja_run *run, const jinja_call *call)
{
    jinja_work *work = run->work;
    const bool one = !jinja_is_given(call->slots[1]);
    const int64_t first = one ? 0 : jinja_as_int(work, call->slots[0]);
    const int64_t end = jinja_as_int(work, call->slots[one ? 0 : 1]);
    const int64_t step = jinja_is_given(call->slots[2]) ? jinja_as_int(work, call->slots[2]) : 1;
    if (step == 0) {
        jinja_fail(work, BASE_ERR_INVALID, "the step of a range is 0");
    }
    const bool any = step > 0 ? first < end : first > end;
    const uint64_t wide =
        step > 0 ? (uint64_t)end - (uint64_t)first : (uint64_t)first - (uint64_t)end;
    const uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t count = any ? (wide - 1) / stride + 1 : 0;
    if (count > RANK_JINJA_RANGE_MAX) {
        jinja_fail(work, BASE_ERR_LIMIT, "a range has more than %d numbers", RANK_JINJA_RANGE_MAX);
    }
    jinja_value *items = jinja_values(work, count);
    for (uint64_t i = 0; i < count; i++) {
        items[i] = jinja_int((int64_t)((uint64_t)first + i * (uint64_t)step));
    }
    return jinja_list_of(work, items, count, JINJA_FORM_RANGE);
}

static jinja_value global_raise_exception(jinja_run *run, const jinja_call *call)
{
    const jinja_string *message = jinja_to_string(run->work, call->slots[0]);
    jinja_fail_with(run->work, BASE_ERR_INVALID, jinja_name_of(run->work, message));
}

const jinja_row jinja_globals[] = {
    {.name = "namespace", .function = global_namespace, .takes_any = true},
    {.name = "dict", .function = global_dict, .takes_any = true},
    {.name = "range", .function = global_range, .params = {"start", "stop", "step"}, .needed = 1},
    {.name = "raise_exception",
     .function = global_raise_exception,
     .params = {"message"},
     .needed = 1},
    {.name = NULL},
};
