/* ONNX Runtime's C API: the part that the differential test and the benchmark use. */
#ifndef XCVM_TESTS_DIFFERENTIAL_ORT_H
#define XCVM_TESTS_DIFFERENTIAL_ORT_H

/*
 * ONNX Runtime's C API, for ort_run.c and bench/ort_bench.c: one table of functions whose slots never move; only those
 * used are named, by number. Inputs are tensors as case.py writes them: dims, data_type, raw_data or string_data.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const void **(*get_api)(uint32_t version);
    const char *(*version)(void);
} ort_base;

extern const ort_base *OrtGetApiBase(void);

enum slot {
    GET_ERROR_CODE = 1,
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_OPTIONS = 10,
    SET_OPTIMIZED_PATH = 11,
    SET_LOG_SEVERITY = 22,
    SET_OPT_LEVEL = 23,
    SET_INTRA = 24,
    SET_INTER = 25,
    INPUT_COUNT = 30,
    OUTPUT_COUNT = 31,
    INPUT_TYPE = 33,
    INPUT_NAME = 36,
    OUTPUT_NAME = 37,
    CREATE_TENSOR = 48,
    TENSOR_DATA = 51,
    FILL_STRINGS = 52,
    STRINGS_LENGTH = 53,
    STRINGS_CONTENT = 54,
    CAST_TENSOR_INFO = 55,
    ELEMENT_TYPE = 60,
    DIM_COUNT = 61,
    DIMS = 62,
    ELEMENT_COUNT = 64,
    TENSOR_INFO = 65,
    VALUE_TYPE = 67,
    DEFAULT_ALLOCATOR = 78,
    GET_VALUE = 80,
    VALUE_COUNT = 81,
    RELEASE_STATUS = 93,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_TENSOR_INFO = 99,
};

enum { STRING = 8 };

static const void **api;
static void *allocator;

typedef void *(*status_function)();
typedef void (*release_function)(void *);
#define CALL(slot, ...) ((status_function)(uintptr_t)api[slot])(__VA_ARGS__)
#define RELEASE(slot, x) ((release_function)(uintptr_t)api[slot])(x)
#define TRY(slot, ...)                                                                                                 \
    do {                                                                                                               \
        void *status_ = CALL(slot, __VA_ARGS__);                                                                       \
        if (status_ != NULL)                                                                                           \
            return status_;                                                                                            \
    } while (0)

static _Noreturn void give_up(const char *what, const char *path)
{
    fprintf(stderr, "ONNX Runtime: %s %s\n", what, path);
    exit(2);
}

/* Widths of a packed element in bits, by ONNX's number for the type; the two tables of numbers agree. */
static size_t bits_of(int type)
{
    static const unsigned char bits[] = {0,  32,  8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64,
                                         64, 128, 16, 8, 8,  8,  8,  4,  4, 4, 8,  2,  2};
    return type < (int)sizeof bits ? bits[type] : 0;
}

struct tensor {
    int64_t dims[32];
    size_t rank, string_count, raw_length;
    int64_t type;
    const char *raw, **strings;
};

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void parse(const unsigned char *at, size_t length, struct tensor *tensor)
{
    for (const unsigned char *end = at + length; at < end;) {
        uint64_t tag = varint(&at), number = varint(&at);
        const unsigned char *bytes = at;
        if ((tag & 7) == 2)
            at += number;
        if (tag == (1 << 3)) {
            tensor->dims[tensor->rank++] = (int64_t)number;
        } else if (tag == (1 << 3 | 2)) {
            while (bytes < at)
                tensor->dims[tensor->rank++] = (int64_t)varint(&bytes);
        } else if (tag == (2 << 3)) {
            tensor->type = (int64_t)number;
        } else if (tag == (6 << 3 | 2)) {
            tensor->strings = realloc(tensor->strings, sizeof *tensor->strings * (tensor->string_count + 1));
            tensor->strings[tensor->string_count++] = strndup((const char *)bytes, number);
        } else if (tag == (9 << 3 | 2)) {
            tensor->raw = (const char *)bytes;
            tensor->raw_length = number;
        }
    }
}

static void *read_tensor(const char *path, void **value)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        give_up("cannot open", path);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(length + 1);
    if (fread(bytes, 1, length, file) != length)
        give_up("cannot read", path);
    fclose(file);
    struct tensor tensor = {0};
    parse(bytes, length, &tensor);
    TRY(CREATE_TENSOR, allocator, tensor.dims, tensor.rank, (int)tensor.type, value);
    if (tensor.type == STRING) {
        TRY(FILL_STRINGS, *value, tensor.strings, tensor.string_count);
    } else if (tensor.raw_length != 0) {
        void *data;
        TRY(TENSOR_DATA, *value, &data);
        memcpy(data, tensor.raw, tensor.raw_length);
    }
    free(tensor.strings);
    free(bytes);
    return NULL;
}

#endif
