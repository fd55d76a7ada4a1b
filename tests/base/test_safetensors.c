/* base/safetensors.h: headers that are valid, truncated, hostile, or changed by one byte. */
#include "base/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "support.h"

#define TWO_TENSORS                                                                                \
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"                          \
    "\"__metadata__\":{\"format\":\"pt\"},"                                                        \
    "\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}   "
#define ONE(fields) "{\"a\":{" fields "}}"

/* The header's length, the header and data_bytes zeros. The block has exactly that size, so that
 * sanitizers see the first byte beyond. */
static uint8_t *make_file(const char *header, size_t data_bytes, size_t *size_bytes)
{
    const size_t header_bytes = strlen(header);
    *size_bytes = 8 + header_bytes + data_bytes;
    uint8_t *file = calloc(1, *size_bytes);
    assert_non_null(file);
    file[0] = (uint8_t)header_bytes;
    file[1] = (uint8_t)(header_bytes >> 8);
    memcpy(file + 8, header, header_bytes);
    return file;
}

static void tensors_come_in_file_order(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    base_error error;
    base_safetensors parsed;
    uint8_t *file = make_file(TWO_TENSORS, 12, &size_bytes);
    assert_ok(base_safetensors_parse(file, size_bytes, &parsed, &error), &error);
    assert_int_equal(parsed.count, 2);
    assert_int_equal(parsed.data_bytes, 12);
    assert_ptr_equal(parsed.data, file + size_bytes - 12);
    assert_string_equal(parsed.tensors[0].name, "a");
    assert_string_equal(parsed.tensors[1].name, "b");
    const base_safetensor *b = base_safetensors_find(&parsed, "b");
    assert_ptr_equal(b, &parsed.tensors[1]);
    assert_string_equal(b->dtype, "F32");
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->offset_bytes, 4);
    assert_int_equal(b->size_bytes, 8);
    assert_null(base_safetensors_find(&parsed, "c"));
    assert_string_equal(base_safetensors_metadata(&parsed, "format"), "pt");
    assert_null(base_safetensors_metadata(&parsed, "a"));
    base_safetensors_release(&parsed);
    assert_null(base_safetensors_metadata(&parsed, "format"));
    base_safetensors_release(&parsed); /* empty: fine */
    free(file);
}

static void an_empty_file_of_tensors_is_valid(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    base_error error;
    base_safetensors parsed;
    uint8_t *file = make_file("{}", 0, &size_bytes);
    assert_ok(base_safetensors_parse(file, size_bytes, &parsed, &error), &error);
    assert_int_equal(parsed.count, 0);
    assert_null(base_safetensors_metadata(&parsed, "format"));
    base_safetensors_release(&parsed);
    free(file);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    base_error error;
    base_safetensors parsed;
    uint8_t *file = make_file(TWO_TENSORS, 12, &size_bytes);
    for (size_t kept = 0; kept < size_bytes; kept++) {
        uint8_t *cut = malloc(kept + (kept == 0));
        assert_non_null(cut);
        memcpy(cut, file, kept);
        assert_status(base_safetensors_parse(cut, kept, &parsed, &error), BASE_ERR_INVALID);
        assert_null(parsed.tensors);
        free(cut);
    }
    free(file);
}

/* Whatever one byte is changed to, the parse ends, and its records stay inside the file. */
static void every_changed_byte_is_harmless(void **state)
{
    (void)state;
    static const uint8_t VALUES[] = {0, ' ', '"', '-', '0', '9', '[', '{', '}', 0x7f, 0x80, 0xff};
    size_t size_bytes = 0;
    uint8_t *file = make_file(TWO_TENSORS, 12, &size_bytes);
    for (size_t at = 0; at < size_bytes - 12; at++) {
        const uint8_t original = file[at];
        for (size_t v = 0; v < sizeof VALUES; v++) {
            base_safetensors parsed;
            file[at] = VALUES[v];
            if (base_safetensors_parse(file, size_bytes, &parsed, NULL) == BASE_OK) {
                for (size_t i = 0; i < parsed.count; i++) {
                    const uint8_t *end =
                        parsed.data + parsed.tensors[i].offset_bytes + parsed.tensors[i].size_bytes;
                    assert_true(end <= file + size_bytes);
                }
                base_safetensors_release(&parsed);
            }
        }
        file[at] = original;
    }
    free(file);
}

static void hostile_headers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *reason;
    } CASES[] = {
        {"[1]", "start with"},
        {" {}", "start with"},
        {"{}x", "JSON"},
        {"{\"a\":1}", "expected dtype"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3]"), "expected dtype"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12],\"x\":1"), "nothing else"},
        {ONE("\"dtype\":\"F31\",\"shape\":[3],\"data_offsets\":[0,12]"), "dtype"},
        {ONE("\"dtype\":4,\"shape\":[3],\"data_offsets\":[0,12]"), "dtype"},
        {ONE("\"dtype\":\"F32\",\"shape\":[-3],\"data_offsets\":[0,12]"), "shape"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3.0],\"data_offsets\":[0,12]"), "shape"},
        {ONE("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,3],\"data_offsets\":[0,12]"), "shape"},
        {ONE("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,12]"),
         "shape"},
        {ONE("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,12]"), "hold"},
        {ONE("\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,12]"), "JSON"},
        {ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]"), "hold"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,0]"), "outside"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]"), "outside"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[-4,8]"), "outside"},
        {ONE("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12,0]"), "outside"},
        {ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), "after the last"},
        {ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]"), "a hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         "an overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         "duplicate"},
        {"{\"a\\u001b[2J\\nbyte-equal: \":{\"dtype\":\"F32\",\"shape\":[3],"
         "\"data_offsets\":[0,12]}}",
         "a tensor's name has a control character"},
        {"{\"__metadata__\":{\"n\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[3],"
         "\"data_offsets\":[0,12]}}",
         "__metadata__"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        size_t size_bytes = 0;
        base_error error = {0};
        base_safetensors parsed;
        uint8_t *file = make_file(CASES[i].header, 12, &size_bytes);
        assert_status(base_safetensors_parse(file, size_bytes, &parsed, &error), BASE_ERR_INVALID);
        if (strstr(error.message, CASES[i].reason) == NULL) {
            fail_msg("%s: \"%s\" lacks \"%s\"", CASES[i].header, error.message, CASES[i].reason);
        }
        free(file);
    }
}

static void a_huge_header_length_is_refused(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    base_error error;
    base_safetensors parsed;
    uint8_t *file = make_file(TWO_TENSORS, 12, &size_bytes);
    memset(file, 0xff, 8);
    assert_status(base_safetensors_parse(file, size_bytes, &parsed, &error), BASE_ERR_LIMIT);
    base_writer length = base_writer_make(file, 8);
    base_write_u64(&length, BASE_SAFETENSORS_HEADER_BYTES_MAX + 1);
    assert_status(base_safetensors_parse(file, size_bytes, &parsed, &error), BASE_ERR_LIMIT);
    length = base_writer_make(file, 8);
    base_write_u64(&length, BASE_SAFETENSORS_HEADER_BYTES_MAX);
    assert_status(base_safetensors_parse(file, size_bytes, &parsed, &error), BASE_ERR_INVALID);
    free(file);
}

/* The first eight bytes are a length, which is no text: else a manifest has a header of petabytes. */
static void a_text_is_no_safetensors_file(void **state)
{
    (void)state;
    static const char text[] = "{\n  \"seed\": 35000\n}\n";
    base_error error;
    base_safetensors parsed;
    assert_status(base_safetensors_parse(text, sizeof text - 1, &parsed, &error), BASE_ERR_INVALID);
    assert_string_equal(error.message,
                        "it is no safetensors file: it is a text, and starts with '{'");
}

/* Both ways to read a file refuse the same, and give the same records. */
static void an_open_file_is_read_by_its_header(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    uint8_t *file = make_file(TWO_TENSORS, 12, &size_bytes);
    for (size_t kept = 0; kept <= size_bytes; kept++) {
        base_safetensors parsed;
        base_safetensors read;
        size_t offset_bytes = 0;
        const int fd = memfd_create("file", MFD_CLOEXEC);
        assert_int_equal(write(fd, file, kept), kept);
        const base_status status = base_safetensors_parse(file, kept, &parsed, NULL);
        assert_status(base_safetensors_read(fd, &read, NULL), status);
        assert_int_equal(status, kept == size_bytes ? BASE_OK : BASE_ERR_INVALID);
        assert_status(base_safetensors_data_offset(fd, kept, &offset_bytes, NULL),
                      kept < size_bytes - 12 ? BASE_ERR_INVALID : BASE_OK);
        if (status == BASE_OK) {
            assert_int_equal(offset_bytes, size_bytes - 12);
            assert_int_equal(read.data_offset_bytes, offset_bytes);
            assert_int_equal(parsed.data_offset_bytes, offset_bytes);
            assert_int_equal(read.count, parsed.count);
            assert_string_equal(read.tensors[0].name, parsed.tensors[0].name);
            assert_null(read.data);
        }
        base_safetensors_release(&parsed);
        base_safetensors_release(&read);
        (void)close(fd);
    }
    free(file);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 60000 };
    static char header[DEPTH + 8];
    size_t size_bytes = 0;
    base_safetensors parsed;
    memset(header, '[', sizeof header - 1);
    memcpy(header, "{\"a\":", 5);
    uint8_t *file = make_file(header, 0, &size_bytes);
    assert_status(base_safetensors_parse(file, size_bytes, &parsed, NULL), BASE_ERR_INVALID);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_in_file_order),
        cmocka_unit_test(an_empty_file_of_tensors_is_valid),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_changed_byte_is_harmless),
        cmocka_unit_test(hostile_headers_are_refused_by_name),
        cmocka_unit_test(a_huge_header_length_is_refused),
        cmocka_unit_test(a_text_is_no_safetensors_file),
        cmocka_unit_test(an_open_file_is_read_by_its_header),
        cmocka_unit_test(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
