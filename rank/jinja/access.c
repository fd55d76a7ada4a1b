/* Members, items and slices of values. Called by eval.c and by filters that take attributes. */
#include <string.h>

#include "run.h"

/* Members that such a value has in Jinja, and not here. */
static const char *missing_members(jinja_value object)
{
    switch (object.kind) {
    case JINJA_STRING:
        return " casefold center encode expandtabs format format_map index isascii isdecimal "
               "isidentifier islower isnumeric isprintable istitle isupper ljust maketrans "
               "partition rindex rjust rpartition swapcase translate zfill ";
    case JINJA_LIST:
        return object.list->form == JINJA_FORM_LIST    ? " copy "
               : object.list->form == JINJA_FORM_RANGE ? " count index start step stop "
               : object.list->form == JINJA_FORM_VIEW  ? " isdisjoint mapping "
                                                       : "";
    case JINJA_DICT:
        return " fromkeys ";
    case JINJA_BOOL:
    case JINJA_INT:
        return " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag "
               "is_integer numerator real to_bytes ";
    case JINJA_REAL:
        return " as_integer_ratio conjugate fromhex hex imag is_integer real ";
    case JINJA_LOOP:
        return " changed cycle ";
    case JINJA_MACRO:
        return " arguments caller catch_kwargs catch_varargs explicit_caller name ";
    default:
        return "";
    }
}

static void refuse_missing(jinja_run *run, jinja_value object, const char *name)
{
    const char *names = missing_members(object);
    const size_t bytes = strlen(name);
    for (const char *at = names; bytes > 0 && (at = strstr(at, name)) != NULL; at += bytes) {
        if (at[-1] == ' ' && at[bytes] == ' ' && strchr(name, ' ') == NULL) {
            jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "the member '%s' of a %s is not known here",
                       name, jinja_type_name(object));
        }
    }
}

static jinja_value loop_member(jinja_run *run, const jinja_loop *loop, const char *name)
{
    const int64_t index = (int64_t)loop->index;
    const int64_t count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        jinja_value value;
    } members[] = {{"index", jinja_int(index + 1)},
                   {"index0", jinja_int(index)},
                   {"revindex", jinja_int(count - index)},
                   {"revindex0", jinja_int(count - index - 1)},
                   {"first", jinja_bool(index == 0)},
                   {"last", jinja_bool(index + 1 == count)},
                   {"length", jinja_int(count)},
                   {"depth", jinja_int(1)},
                   {"depth0", jinja_int(0)}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(name, members[i].name) == 0) {
            return members[i].value;
        }
    }
    if (strcmp(name, "previtem") == 0 && index > 0 && index <= count) {
        return loop->items->at[index - 1];
    }
    if (strcmp(name, "nextitem") == 0 && index + 1 < count) {
        return loop->items->at[index + 1];
    }
    refuse_missing(run, (jinja_value){.kind = JINJA_LOOP, .loop = loop}, name);
    return jinja_undefined(name, JINJA_LOOP);
}

static jinja_value method_of(jinja_run *run, jinja_value object, const char *name)
{
    const jinja_row *row = jinja_method_find(object, name);
    if (row == NULL) {
        refuse_missing(run, object, name);
        return jinja_undefined(name, object.kind);
    }
    if (object.kind == JINJA_STRING && object.string->is_markup) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED,
                   "the method '%s' of a str that is safe or escaped is not known here", name);
    }
    jinja_method *method = jinja_alloc(run->work, sizeof *method);
    *method = (jinja_method){.object = object, .row = row};
    return (jinja_value){.kind = JINJA_METHOD, .method = method};
}

jinja_value jinja_member(jinja_run *run, jinja_value object, const char *name)
{
    jinja_need_defined(run->work, object);
    if (object.kind == JINJA_LOOP) {
        return loop_member(run, object.loop, name);
    }
    const jinja_value method = method_of(run, object, name);
    if (method.kind == JINJA_METHOD) {
        return method;
    }
    if (object.kind == JINJA_DICT || object.kind == JINJA_NAMESPACE) {
        const jinja_value *found = jinja_dict_find_name(run->work, object.dict, name);
        return found != NULL ? *found : method;
    }
    return method;
}

/* The place of an index that counts from the end if it is negative; SIZE_MAX: there is none. */
static size_t place_of(int64_t index, size_t count)
{
    if (index < 0) {
        index += (int64_t)count;
    }
    return index >= 0 && (uint64_t)index < count ? (size_t)index : SIZE_MAX;
}

static jinja_value character(jinja_run *run, const jinja_string *string, int64_t index)
{
    int32_t point = 0;
    const size_t place = place_of(index, jinja_point_count(run->work, string));
    if (place == SIZE_MAX) {
        return jinja_undefined("an index behind its end", JINJA_STRING);
    }
    const size_t begin = jinja_point_offset(run->work, string, place);
    return jinja_string_value(
        run->work, jinja_cut(string, begin, begin + jinja_point_at(string, begin, &point)));
}

jinja_value jinja_item(jinja_run *run, jinja_value object, jinja_value key)
{
    jinja_need_defined(run->work, object);
    const bool by_index = key.kind == JINJA_INT || key.kind == JINJA_BOOL;
    if (object.kind == JINJA_DICT) {
        const jinja_value *found = jinja_dict_find(run->work, object.dict, key);
        if (found != NULL) {
            return *found;
        }
    } else if (by_index && object.kind == JINJA_LIST && object.list->form <= JINJA_FORM_RANGE) {
        const size_t place = place_of(jinja_as_int(run->work, key), object.list->count);
        return place != SIZE_MAX ? object.list->at[place]
                                 : jinja_undefined("an index behind its end", JINJA_LIST);
    } else if (by_index && object.kind == JINJA_STRING) {
        return character(run, object.string, jinja_as_int(run->work, key));
    }
    if (key.kind != JINJA_STRING) {
        return jinja_undefined("an item", object.kind);
    }
    const char *name = jinja_name_of(run->work, key.string);
    return object.kind == JINJA_DICT ? method_of(run, object, name)
                                     : jinja_member(run, object, name);
}

/* ---- slices ---- */

typedef struct slice {
    int64_t begin;
    int64_t step;
    size_t count;
} slice;

/* A bound as Python takes it: from the end if it is negative, and not beyond an end. */
static int64_t bound_of(jinja_run *run, jinja_value given, int64_t otherwise, int64_t least,
                        int64_t most)
{
    if (given.kind == JINJA_NONE) {
        return otherwise;
    }
    int64_t bound = jinja_as_int(run->work, given);
    if (bound < 0) {
        bound += least < 0 ? most + 1 : most;
        return bound < least ? least : bound;
    }
    return bound > most ? most : bound;
}

static slice slice_of(jinja_run *run, const jinja_value bounds[3], size_t length)
{
    const int64_t count = (int64_t)length;
    slice made = {.step = bounds[2].kind == JINJA_NONE ? 1 : jinja_as_int(run->work, bounds[2])};
    if (made.step == 0) {
        jinja_fail(run->work, BASE_ERR_INVALID, "the step of a slice is 0");
    }
    const bool back = made.step < 0;
    const int64_t least = back ? -1 : 0;
    const int64_t most = back ? count - 1 : count;
    made.begin = bound_of(run, bounds[0], back ? most : 0, least, most);
    const int64_t end = bound_of(run, bounds[1], back ? -1 : count, least, most);
    const int64_t wide = back ? made.begin - end : end - made.begin;
    const uint64_t step = back ? 0 - (uint64_t)made.step : (uint64_t)made.step;
    made.count = wide > 0 ? (size_t)(((uint64_t)wide - 1) / step + 1) : 0;
    made.step = made.count > 1 ? made.step : 1;
    return made;
}

static jinja_value slice_string(jinja_run *run, const jinja_string *string,
                                const jinja_value bounds[3])
{
    const slice taken = slice_of(run, bounds, jinja_point_count(run->work, string));
    if (taken.step == 1) {
        const size_t begin =
            taken.count > 0 ? jinja_point_offset(run->work, string, (size_t)taken.begin) : 0;
        const jinja_string rest = jinja_cut(string, begin, string->bytes);
        return jinja_string_value(
            run->work, jinja_cut(&rest, 0, jinja_point_offset(run->work, &rest, taken.count)));
    }
    size_t count = 0;
    const jinja_value *points = jinja_points(run->work, string, &count);
    jinja_text text = {.work = run->work};
    int64_t at = taken.begin;
    for (size_t i = 0; i < taken.count; i++, at += i < taken.count ? taken.step : 0) {
        jinja_text_put(&text, points[at].string);
        jinja_step(run->work, 1);
    }
    return jinja_text_end(&text);
}

jinja_value jinja_slice(jinja_run *run, jinja_value object, const jinja_value bounds[3])
{
    jinja_need_defined(run->work, object);
    if (object.kind == JINJA_STRING) {
        return slice_string(run, object.string, bounds);
    }
    if (object.kind != JINJA_LIST || object.list->form > JINJA_FORM_RANGE) {
        jinja_fail(run->work, BASE_ERR_INVALID, "a slice of a %s", jinja_type_name(object));
    }
    const jinja_list *list = object.list;
    const slice taken = slice_of(run, bounds, list->count);
    if (taken.step == 1) {
        return jinja_list_of(run->work, taken.count > 0 ? list->at + taken.begin : NULL,
                             taken.count, list->form);
    }
    jinja_value *items = jinja_values(run->work, taken.count);
    int64_t at = taken.begin;
    for (size_t i = 0; i < taken.count; i++, at += i < taken.count ? taken.step : 0) {
        items[i] = list->at[at];
    }
    return jinja_list_of(run->work, items, taken.count, list->form);
}
