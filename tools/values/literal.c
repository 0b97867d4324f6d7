/* Literals of tensors and lists: parsing. */
#include "values/literal.h"
#include "cli/buffer.h"
#include "cli/memory.h"
#include "values/number.h"
#include "cli/report.h"
#include "values/value.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 16 };

static const struct {
    const char *prefix;
    xcvm_kind kind;
} lists[] = {{"seq(", XCVM_KIND_SEQUENCE}, {"optional(", XCVM_KIND_OPTIONAL}, {"map(", XCVM_KIND_MAP}};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == '[' || c == ']';
}

static const char *skip_space(const char *text)
{
    while (is_space(*text))
        text++;
    return text;
}

bool literal_is_one(const char *text)
{
    text = skip_space(text);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strncmp(text, lists[i].prefix, strlen(lists[i].prefix)) == 0)
            return true;
    unsigned char element[16] = {0};
    const char *end;
    return *text == '\0' || *text == '"' || number_parse(text, &end, XCVM_F64, element, 0) || end != text;
}

/* ---- Elements ---- */

/* Text of one element. */
struct element {
    const char *at;
    size_t length;
};

/* Splits the text at spaces outside of strings. */
static xcvm_status split(const char *text, struct element **elements, size_t *count, xcvm_error *error)
{
    *elements = NULL;
    *count = 0;
    for (text = skip_space(text); *text != '\0'; text = skip_space(text)) {
        const char *end = text;
        if (*text == '"') {
            struct buffer ignored = {0};
            end = string_parse(text, &ignored);
            buffer_release(&ignored);
            if (end == NULL) {
                free(*elements);
                return error_set(error, XCVM_INVALID_ARGUMENT, "a string has no closing quote: %.80s", text);
            }
        } else {
            while (*end != '\0' && !is_space(*end))
                end++;
        }
        *elements = memory_append(*elements, *count, sizeof **elements);
        (*elements)[(*count)++] = (struct element){text, (size_t)(end - text)};
        text = end;
    }
    return XCVM_OK;
}

/* The element type of elements without a type. */
static xcvm_dtype guess_dtype(const struct element *elements, size_t count)
{
    xcvm_dtype dtype = XCVM_I64;
    for (size_t i = 0; i < count; i++) {
        struct element e = elements[i];
        if (*e.at == '"')
            return XCVM_STRING;
        if (*e.at == 't' || *e.at == 'f')
            return XCVM_BOOL;
        for (size_t k = 0; k < e.length; k++)
            if (memchr(".eEni", e.at[k], 5) != NULL)
                dtype = XCVM_F32;
    }
    return dtype;
}

/* Reads element `e` as the number or, if the type is complex, as the two numbers of element `index`. */
static xcvm_status read_element(struct element e, xcvm_dtype dtype, void *data, size_t index, xcvm_error *error)
{
    const char *end, *stop = e.at + e.length;
    size_t parts = number_parts(dtype);
    bool good = number_parse(e.at, &end, number_type(dtype), data, index * parts);
    bool number_there = end > e.at;
    if (good && parts == 2 && end < stop) {
        if (*end == 'i') {
            end++;
            number first = number_get(number_type(dtype), data, index * parts);
            (void)number_set(number_type(dtype), data, index * parts, 0);
            (void)number_set(number_type(dtype), data, index * parts + 1, first);
        } else {
            const char *second = end;
            good = number_parse(second, &end, number_type(dtype), data, index * parts + 1);
            if (good && end < stop && *end == 'i')
                end++;
            else
                good = false;
        }
    } else if (good && parts == 2) {
        (void)number_set(number_type(dtype), data, index * parts + 1, 0);
    }
    if (good && end == stop)
        return XCVM_OK;
    int length = e.length < 80 ? (int)e.length : 80;
    if (number_there && end == stop)
        return error_set(error, XCVM_INVALID_ARGUMENT, "%.*s cannot be a %s", length, e.at, xcvm_dtype_name(dtype));
    return error_set(error, XCVM_INVALID_ARGUMENT, "\"%.*s\" is no %s", length, e.at,
                     parts == 2 ? "complex number, for example 1+2i" : "number");
}

static xcvm_status string_tensor(const struct element *elements, size_t count, const xcvm_type *type, size_t total,
                                 struct value_budget *budget, xcvm_value **tensor, xcvm_error *error)
{
    struct buffer characters = {0};
    size_t *lengths = memory_take(total, sizeof *lengths), *starts = memory_take(total, sizeof *starts);
    const char **strings = memory_take(total, sizeof *strings);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < total && status == XCVM_OK; i++) {
        const struct element *e = &elements[count == 1 ? 0 : i];
        status = value_budget_poll(budget, i, error);
        if (status != XCVM_OK)
            break;
        starts[i] = count == 1 ? 0 : characters.length;
        if (count == 1 && i > 0) { /* one element fills the tensor */
            lengths[i] = lengths[0];
            continue;
        }
        if (*e->at != '"')
            status = error_set(error, XCVM_INVALID_ARGUMENT, "\"%.*s\" is not a string (expected quotes)",
                               e->length < 80 ? (int)e->length : 80, e->at);
        else
            string_parse(e->at, &characters);
        lengths[i] = characters.length - starts[i];
    }
    for (size_t i = 0; i < total; i++)
        strings[i] = buffer_string(&characters) + starts[i];
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(value_budget_allocator(budget), type->rank, type->dims, strings, lengths,
                                           tensor, error);
    free(strings);
    free(starts);
    free(lengths);
    buffer_release(&characters);
    return status;
}

/* Settles the shape for `count` elements; `total` becomes how many the tensor has. */
static xcvm_status find_shape(xcvm_type *type, size_t count, size_t *total, xcvm_error *error)
{
    int open = -1;
    size_t known = 1;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] < 0 && open < 0) {
            open = i;
            continue;
        }
        /* If several dimensions are open, the number of elements determines the first. */
        if (type->dims[i] < 0)
            type->dims[i] = 1;
        if (__builtin_mul_overflow(known, (size_t)type->dims[i], &known))
            return error_set(error, XCVM_OUT_OF_RANGE, "the shape is too large");
    }
    if (open >= 0) {
        if (known > 0 && count != 1 && count % known != 0)
            return error_set(error, XCVM_SHAPE_MISMATCH,
                             "%zu elements are given, but dimension %d is open, and each of its rows has %zu", count,
                             open, known);
        type->dims[open] = known == 0 || count == 1 ? 1 : (int64_t)(count / known);
        known *= (size_t)type->dims[open];
    }
    *total = known;
    if (count != known && !(count == 1 && known > 0))
        return error_set(error, XCVM_SHAPE_MISMATCH, "%zu elements are given, but the shape has %zu", count, known);
    return XCVM_OK;
}

static xcvm_status tensor_value(const char *text, const xcvm_type *type, const xcvm_type *declared,
                                struct value_budget *budget, xcvm_value **tensor, xcvm_error *error)
{
    struct element *elements;
    size_t count, total = 0;
    TRY(split(text, &elements, &count, error));
    xcvm_type own = {.kind = XCVM_KIND_TENSOR, .rank = -1};
    if (type != NULL)
        own = *type;
    else if (declared != NULL && declared->kind == XCVM_KIND_TENSOR)
        own = *declared;
    if (own.dtype == XCVM_NO_DTYPE)
        own.dtype = guess_dtype(elements, count);
    if (own.rank < 0) {
        own.rank = count == 1 ? 0 : 1;
        own.dims[0] = (int64_t)count;
    }
    xcvm_status status = find_shape(&own, count, &total, error);
    if (status == XCVM_OK && own.dtype == XCVM_STRING) {
        if (total > count && total > (size_t)1 << 28)
            status = error_set(error, XCVM_OUT_OF_MEMORY, "too many strings");
        else
            status = value_budget_check(budget, total * STRING_BYTES, error);
        if (status == XCVM_OK)
            status = string_tensor(elements, count, &own, total, budget, tensor, error);
    } else if (status == XCVM_OK) {
        status = value_zeros(budget, own.dtype, own.rank, own.dims, tensor, error);
        bool created = status == XCVM_OK;
        for (size_t i = 0; i < total && status == XCVM_OK; i++) {
            status = value_budget_poll(budget, i, error);
            if (status == XCVM_OK)
                status = read_element(elements[count == 1 ? 0 : i], own.dtype, xcvm_value_data(*tensor), i, error);
        }
        if (created && status != XCVM_OK) {
            xcvm_value_release(*tensor);
            *tensor = NULL;
        }
    }
    free(elements);
    return status;
}

/* ---- Lists ---- */

static xcvm_status value_at(const char *text, const xcvm_type *type, const xcvm_type *declared, int nesting,
                            struct value_budget *budget, xcvm_value **value, xcvm_error *error);

/* The end of an item of a list: the ; or ) that is neither in a string nor in brackets. */
static const char *item_end(const char *text)
{
    int depth = 0;
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            struct buffer ignored = {0};
            const char *end = string_parse(text, &ignored);
            buffer_release(&ignored);
            if (end == NULL)
                return NULL;
            text = end - 1;
        } else if (*text == '(') {
            depth++;
        } else if ((*text == ';' && depth == 0) || (*text == ')' && depth-- == 0)) {
            return text;
        }
    }
    return NULL;
}

/* One item: TYPE=ELEMENTS, ELEMENTS, or a list. */
static xcvm_status item_value(const char *text, const xcvm_type *declared, int nesting, struct value_budget *budget,
                              xcvm_value **value, xcvm_error *error)
{
    xcvm_type type;
    size_t span = strcspn(text, "=\"(");
    bool typed = text[span] == '=' && type_parse(text, span, &type);
    return value_at(typed ? text + span + 1 : text, typed ? &type : NULL, declared, nesting, budget, value, error);
}

static xcvm_status list_value(const char *text, xcvm_kind kind, const xcvm_type *declared, int nesting,
                              struct value_budget *budget, xcvm_value **list, xcvm_error *error)
{
    xcvm_value **items = NULL;
    size_t count = 0;
    xcvm_status status = XCVM_OK;
    xcvm_type item_type = {.kind = XCVM_KIND_TENSOR, .rank = -1};
    if (declared != NULL && kind != XCVM_KIND_MAP)
        item_type.dtype = declared->dtype;
    for (;;) {
        text = skip_space(text);
        const char *end = item_end(text);
        if (end == NULL) {
            status = error_set(error, XCVM_INVALID_ARGUMENT, "a list has no closing )");
            break;
        }
        if (!(*end == ')' && end == text && count == 0)) {
            char *item = memory_text_n(text, (size_t)(end - text));
            xcvm_value *value;
            status = item_value(item, &item_type, nesting + 1, budget, &value, error);
            free(item);
            if (status != XCVM_OK)
                break;
            items = memory_append(items, count, sizeof *items);
            items[count++] = value;
        }
        text = end + 1;
        if (*end == ')')
            break;
    }
    if (status == XCVM_OK && *skip_space(text) != '\0')
        status = error_set(error, XCVM_INVALID_ARGUMENT, "\"%.80s\" follows the end of the list", text);
    if (status == XCVM_OK && kind == XCVM_KIND_OPTIONAL && count > 1)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "an optional contains at most one value");
    if (status == XCVM_OK && kind == XCVM_KIND_MAP && count != 2)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "a map must have the form map(KEYS; VALUES)");
    if (status == XCVM_OK)
        status = xcvm_list_create(NULL, kind, count, items, list, error);
    for (size_t i = 0; i < count; i++)
        xcvm_value_release(items[i]);
    free(items);
    return status;
}

static xcvm_status value_at(const char *text, const xcvm_type *type, const xcvm_type *declared, int nesting,
                            struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    if (nesting > MAX_NESTING)
        return error_set(error, XCVM_INVALID_ARGUMENT, "lists are nested more than %d deep", MAX_NESTING);
    text = skip_space(text);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && type == NULL; i++) {
        size_t length = strlen(lists[i].prefix);
        if (strncmp(text, lists[i].prefix, length) == 0)
            return list_value(text + length, lists[i].kind, declared, nesting, budget, value, error);
    }
    return tensor_value(text, type, declared, budget, value, error);
}

xcvm_status literal_value(const char *text, const xcvm_type *type, const xcvm_type *declared,
                          struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    return value_at(text, type, declared, 0, budget, value, error);
}
