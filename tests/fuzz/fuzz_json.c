/* Any bytes as the JSON of an inference request: the split, and its arrays as elements and strings of several types.
 * What is written of a tensor of numbers must be read as the same tensor. */
#include "fuzz.h"

#include "server/json/document.h"
#include "server/json/elements.h"
#include "server/json/split.h"

enum { MOST_ARRAYS = 8, REST_LIMIT = 1 << 16 };

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(bytes, count, capacity);
}

static bool is_finite(const xcvm_value *tensor)
{
    const bool is_float = xcvm_value_dtype(tensor) == XCVM_F32;
    for (size_t i = 0; is_float && i < xcvm_value_count(tensor); i++)
        if (((const float *)xcvm_value_data(tensor))[i] - ((const float *)xcvm_value_data(tensor))[i] != 0)
            return false;
    return true;
}

static void read_again(const xcvm_value *tensor)
{
    xcvm_error error;
    xcvm_value *again = NULL;
    xcs_text text = {0};
    if (!is_finite(tensor)) /* has no JSON form */
        abort();
    if (xcs_elements_write(&text, tensor, &error) != XCVM_OK ||
        xcvm_tensor_create(NULL, xcvm_value_dtype(tensor), xcvm_value_rank(tensor), xcvm_value_dims(tensor), &again,
                           &error) != XCVM_OK ||
        xcs_elements_read(text.at, text.at + text.count, again, &error) != XCVM_OK ||
        memcmp(xcvm_value_data(again), xcvm_value_data(tensor), xcvm_value_bytes(tensor)) != 0)
        abort();
    xcvm_value_release(again);
    xcs_text_free(&text);
}

static void read_array(const xcs_span *array)
{
    static const int64_t dims[] = {2, 2};
    static const xcvm_dtype dtypes[] = {XCVM_F32, XCVM_F16, XCVM_I64, XCVM_U8, XCVM_BOOL};
    xcvm_error error;
    for (size_t i = 0; i < 2 * sizeof dtypes / sizeof *dtypes; i++) {
        xcvm_value *tensor = NULL;
        if (xcvm_tensor_create(NULL, dtypes[i / 2], (int)(i % 2) + 1, dims, &tensor, &error) != XCVM_OK)
            abort();
        if (xcs_elements_read(array->at, array->end, tensor, &error) == XCVM_OK)
            read_again(tensor);
        xcvm_value_release(tensor);
    }
    xcvm_value *strings = NULL;
    if (xcs_strings_read(array->at, array->end, NULL, 1, dims, &strings, &error) == XCVM_OK)
        xcvm_value_release(strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    xcs_text rest = {0};
    xcs_span arrays[MOST_ARRAYS];
    size_t found = 0;
    xcs_json *document = NULL;
    /* A block of its own, so that reads beyond the end are seen. */
    char *body = malloc(count > 0 ? count : 1);
    if (body == NULL)
        return 0;
    if (count > 0)
        memcpy(body, bytes, count);
    const char *at = body;
    if (xcs_json_split(body, count, REST_LIMIT, &rest, arrays, MOST_ARRAYS, &found, &error) == XCVM_OK) {
        for (size_t i = 0; i < found; i++) {
            if (arrays[i].at < at || arrays[i].end <= arrays[i].at || arrays[i].end > body + count)
                abort();
            at = arrays[i].end;
            read_array(&arrays[i]);
        }
        if (xcs_json_load_library(&error) == XCVM_OK &&
            xcs_json_parse(rest.at, rest.count, &document, &error) == XCVM_OK)
            xcs_json_release(document);
    }
    xcs_text_free(&rest);
    free(body);
    return 0;
}
