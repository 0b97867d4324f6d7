/* SPEC: parsing, and making its tensor. */
#include "tensors/spec.h"
#include "values/literal.h"
#include "cli/memory.h"
#include "values/number.h"
#include "cli/options.h"
#include "cli/report.h"
#include "values/value.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parses random, zeros and ones. */
static xcvm_status parse_filling(const char *body, struct spec *spec, bool *found, xcvm_error *error)
{
    *found = true;
    if (strcmp(body, "zeros") == 0) {
        spec->form = SPEC_ZEROS;
    } else if (strcmp(body, "ones") == 0) {
        spec->form = SPEC_ONES;
    } else if (strcmp(body, "random") == 0) {
        spec->form = SPEC_RANDOM;
    } else if (strncmp(body, "random:", 7) == 0) {
        int64_t seed;
        if (!parse_int(body + 7, &seed) || seed < 0)
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "\"%.80s\" is not a seed (expected a whole number of at least 0)", body + 7);
        spec->form = SPEC_RANDOM;
        spec->seeded = true;
        spec->seed = (uint64_t)seed;
    } else {
        *found = false;
    }
    return XCVM_OK;
}

static xcvm_status no_tensor(const char *text, const char *body, xcvm_error *error)
{
    if (access(body, F_OK) == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT, "\"%.100s\" is not a tensor. To read a file, write @%.100s",
                         text, body);
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "\"%.100s\" is not a tensor (expected for example 3.5, 2x3xf32=1 2 3 4 5 6, @file.npy, random, "
                     "zeros or ones). See xcvm help spec",
                     text);
}

static xcvm_status parse_file(const char *text, struct spec *spec, xcvm_error *error)
{
    spec->form = SPEC_FILE;
    char *whole = NULL;
    const char *end = parse_factor(text, &spec->factor);
    if (*end != '\0' && access(text, F_OK) != 0)
        text = whole = memory_text_n(text, (size_t)(end - text));
    else
        spec->factor = 0;
    const char *star = *end == '\0' && access(text, F_OK) != 0 ? strrchr(text, '*') : NULL;
    if (star != NULL)
        return error_set(
            error, XCVM_INVALID_ARGUMENT,
            "@%.200s: there is no such file, and %.40s is no factor, which is a finite number other than 0, "
            "or a fraction such as 1/255",
            text, star);
    /* A key follows the last colon, if the part before it is an archive. */
    const char *colon = strrchr(text, ':');
    if (colon != NULL && colon - text >= 4 && strncasecmp(colon - 4, ".npz", 4) == 0) {
        spec->path = memory_text_n(text, (size_t)(colon - text));
        spec->key = memory_text(colon + 1);
    } else {
        spec->path = memory_text(text);
    }
    free(whole);
    if (*spec->path == '\0')
        return error_set(error, XCVM_INVALID_ARGUMENT, "the name of a file is missing after @");
    return XCVM_OK;
}

/* The text before an equals sign is a type, unless the sign is in a string or a list. */
static bool wrong_type(const char *text, const char *equals, const struct spec *spec)
{
    return equals != NULL && !spec->typed && text + strcspn(text, "\"(") > equals;
}

xcvm_status spec_parse(const char *text, struct spec *spec, xcvm_error *error)
{
    *spec = (struct spec){.form = SPEC_LITERAL, .body = text};
    if (*text == '\0') {
        spec->form = SPEC_NOTHING;
        return XCVM_OK;
    }
    if (strcmp(text, "-") == 0) {
        spec->form = SPEC_DASH;
        return XCVM_OK;
    }
    const char *equals = strchr(text, '=');
    if (equals != NULL && type_parse(text, (size_t)(equals - text), &spec->type)) {
        spec->typed = true;
        spec->body = equals + 1;
    }
    bool found;
    xcvm_status status = parse_filling(spec->body, spec, &found, error);
    if (status == XCVM_OK && !found && *spec->body == '@')
        status = parse_file(spec->body + 1, spec, error);
    else if (status == XCVM_OK && !found && (!literal_is_one(spec->body) || wrong_type(text, equals, spec)))
        status = no_tensor(text, spec->body, error);
    if (status != XCVM_OK)
        spec_release(spec);
    return status;
}

void spec_release(struct spec *spec)
{
    free(spec->path);
    free(spec->key);
    *spec = (struct spec){0};
}

bool spec_needs_dims(const struct spec *spec)
{
    return !spec->typed && (spec->form == SPEC_RANDOM || spec->form == SPEC_ZEROS || spec->form == SPEC_ONES);
}

/* ---- Made-up elements ---- */

/* splitmix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static xcvm_status random_strings(const xcvm_type *type, const struct filling *filling, xcvm_value **value,
                                  xcvm_error *error)
{
    static const char *const words[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"};
    size_t count = 1;
    for (int i = 0; i < type->rank; i++)
        if (__builtin_mul_overflow(count, (size_t)type->dims[i], &count) || count > (size_t)1 << 28)
            return error_set(error, XCVM_OUT_OF_MEMORY, "too many strings");
    TRY(value_budget_check(filling->budget, (uint64_t)count * STRING_BYTES, error));
    const char **strings = memory_take(count, sizeof *strings);
    uint64_t state = filling->seed;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        strings[i] = words[next_random(&state) % 8];
        status = value_budget_poll(filling->budget, i, error);
    }
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(value_budget_allocator(filling->budget), type->rank, type->dims, strings,
                                           NULL, value, error);
    free(strings);
    return status;
}

xcvm_status spec_random(const xcvm_type *type, const struct filling *filling, xcvm_value **value, xcvm_error *error)
{
    uint64_t state = filling->seed;
    if (type->dtype == XCVM_STRING)
        return random_strings(type, filling, value, error);
    TRY(value_zeros(filling->budget, type->dtype, type->rank, type->dims, value, error));
    void *data = xcvm_value_data(*value);
    xcvm_dtype dtype = number_type(type->dtype);
    size_t count = xcvm_value_count(*value) * number_parts(type->dtype);
    xcvm_status status = XCVM_OK;
    bool floating = number_is_float(dtype);
    number below = number_max(dtype) + 1;
    if (!floating && dtype != XCVM_BOOL && below > filling->int_max)
        below = (number)filling->int_max;
    uint64_t modulus = floating || below < 1 ? 1 : (uint64_t)below;
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        uint64_t bits = next_random(&state);
        number x = floating ? (number)((float)(bits >> 40) / 16777216.0f - 0.5f) : (number)(bits % modulus);
        (void)number_set(dtype, data, i, x);
        status = value_budget_poll(filling->budget, i, error);
    }
    if (status != XCVM_OK)
        xcvm_value_release(*value);
    return status;
}

static xcvm_status constant_tensor(const xcvm_type *type, number element, const struct filling *filling,
                                   xcvm_value **value, xcvm_error *error)
{
    if (type->dtype == XCVM_STRING)
        return error_set(error, XCVM_TYPE_MISMATCH, "zeros and ones need a tensor of numbers (declared: str)");
    TRY(value_zeros(filling->budget, type->dtype, type->rank, type->dims, value, error));
    size_t parts = number_parts(type->dtype), count = element != 0 ? xcvm_value_count(*value) : 0;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        (void)number_set(number_type(type->dtype), xcvm_value_data(*value), i * parts, element);
        status = value_budget_poll(filling->budget, i, error);
    }
    if (status != XCVM_OK)
        xcvm_value_release(*value);
    return status;
}

static xcvm_status filled_value(const struct spec *spec, const xcvm_type *type, const struct filling *filling,
                                xcvm_value **value, xcvm_error *error)
{
    if (type == NULL || type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_NO_DTYPE || type->rank < 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "its shape is not declared. Write dimensions and type, for example 2x3xf32=zeros");
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] < 0)
            return error_set(
                error, XCVM_INVALID_ARGUMENT,
                "dimension %d is open. Set it with --dim, or write all dimensions, for example 2x3xf32=zeros", i);
    if (spec->form != SPEC_RANDOM)
        return constant_tensor(type, spec->form == SPEC_ONES, filling, value, error);
    struct filling own = *filling;
    if (spec->seeded)
        own.seed = spec->seed;
    return spec_random(type, &own, value, error);
}

/* ---- Values ---- */

/* Checks the value against the type of the SPEC. */
static xcvm_status check_typed(const xcvm_type *type, const xcvm_value *value, xcvm_error *error)
{
    bool same = xcvm_value_kind(value) == XCVM_KIND_TENSOR && xcvm_value_rank(value) == type->rank;
    for (int i = 0; same && i < type->rank; i++)
        same = xcvm_value_dims(value)[i] == type->dims[i];
    if (same)
        return XCVM_OK;
    struct buffer text = {0};
    value_type_print(&text, value);
    xcvm_status status =
        error_set(error, XCVM_SHAPE_MISMATCH, "the file contains %.100s, not the given shape", buffer_string(&text));
    buffer_release(&text);
    return status;
}

static xcvm_status raw_value(const struct spec *spec, const struct wanted *wanted, const struct filling *filling,
                             xcvm_value **value, xcvm_error *error)
{
    const xcvm_type *type = spec->typed ? &spec->type : wanted->type;
    switch (spec->form) {
    case SPEC_LITERAL:
        return literal_value(spec->body, spec->typed ? &spec->type : NULL, wanted->type, filling->budget, value, error);
    case SPEC_FILE:
    case SPEC_DASH: {
        struct wanted here = {.type = type, .name = wanted->name, .resize = wanted->resize, .bytes = spec->factor != 0};
        TRY(tensor_file_read(spec->form == SPEC_DASH ? "-" : spec->path, spec->key, &here, filling->budget, value,
                             error));
        if (!spec->typed)
            return XCVM_OK;
        xcvm_status status = check_typed(&spec->type, *value, error);
        if (status != XCVM_OK)
            xcvm_value_release(*value);
        return status;
    }
    case SPEC_RANDOM:
    case SPEC_ZEROS:
    case SPEC_ONES:
        return filled_value(spec, type, filling, value, error);
    case SPEC_NOTHING:
        break;
    }
    return error_set(error, XCVM_INVALID_ARGUMENT, "a value is missing");
}

/* Replaces the value by its product with the factor, as doubles, which become `dtype` later; XCVM_NO_DTYPE: they stay.
 * Training multiplies in the same way (multiply in train/data/reader.c). */
static xcvm_status multiply(xcvm_value **value, double factor, xcvm_dtype dtype, struct value_budget *budget,
                            xcvm_error *error)
{
    xcvm_value *raw = *value, *numbers;
    if (xcvm_value_kind(raw) != XCVM_KIND_TENSOR)
        return error_set(error, XCVM_TYPE_MISMATCH, "the file holds no tensor, which a factor could multiply. Omit it");
    if (dtype == XCVM_NO_DTYPE)
        dtype = xcvm_value_dtype(raw);
    if (!number_is_float(dtype))
        return error_set(error, XCVM_TYPE_MISMATCH, "numbers of %s cannot be multiplied by a factor. Omit it",
                         xcvm_dtype_name(dtype));
    TRY(value_convert(raw, XCVM_F64, budget, &numbers, error));
    /* A value of doubles is the file's own, and nobody else has it. */
    double *data = xcvm_value_data(numbers);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < xcvm_value_count(numbers) && status == XCVM_OK; i++) {
        status = value_budget_poll(budget, i, error);
        data[i] = factor == 1.0 / 255.0 ? data[i] / 255.0 : data[i] * factor;
    }
    *value = numbers;
    xcvm_value_release(raw);
    return status;
}

static void note_bytes(const struct spec *spec, const struct wanted *wanted, const xcvm_value *raw)
{
    if (!wanted->note_bytes || spec->form != SPEC_FILE || spec->factor != 0 || wanted->type == NULL ||
        !number_is_float(wanted->type->dtype) || wanted->type->rank < 3 || xcvm_value_kind(raw) != XCVM_KIND_TENSOR ||
        xcvm_value_dtype(raw) != XCVM_U8)
        return;
    report_line(
        "note: %s holds numbers of u8; input \"%s\" takes them as they are, while it takes images in files from 0 to "
        "1. *1/255 behind the name brings 0 to 255 to 0 to 1; *1 says that this is meant",
        spec->path, wanted->name);
}

xcvm_status spec_value(const struct spec *spec, const struct wanted *wanted, const struct filling *filling,
                       xcvm_value **value, xcvm_error *error)
{
    xcvm_value *raw, *converted;
    TRY(raw_value(spec, wanted, filling, &raw, error));
    note_bytes(spec, wanted, raw);
    /* Converts to the type of the SPEC, then to the declared type. */
    xcvm_dtype steps[] = {spec->typed ? spec->type.dtype : XCVM_NO_DTYPE,
                          wanted->type != NULL ? wanted->type->dtype : XCVM_NO_DTYPE};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        bool converts = false;
        xcvm_status status = XCVM_OK;
        if (i == 1 && spec->factor != 0)
            status = multiply(&raw, spec->factor, steps[1], filling->budget, error);
        if (status == XCVM_OK && steps[i] != XCVM_NO_DTYPE)
            status = value_converts(raw, steps[i], filling->budget, &converts, error);
        if (status == XCVM_OK && !converts)
            continue;
        if (status == XCVM_OK)
            status = value_convert(raw, steps[i], filling->budget, &converted, error);
        xcvm_value_release(raw);
        if (status != XCVM_OK)
            return status;
        raw = converted;
    }
    *value = raw;
    return XCVM_OK;
}
