/* Values: JavaScript's form, and the VM's. */
#include "web/node/addon.h"

#include <stdlib.h>
#include <string.h>

/* Lists of the VM nest at most 16 deep. */
enum { MOST_DEPTH = 64 };

bool addon_get_dims(napi_env env, napi_value array, int *rank, int64_t *dims)
{
    uint32_t count;
    if (!addon_get_array(env, array, "the dimensions", &count))
        return false;
    if (count > XCVM_MAX_RANK) {
        addon_fail(env, XCVM_INVALID_ARGUMENT, "the dimensions: expected at most 8");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        napi_value element;
        double dim;
        if (napi_get_element(env, array, i, &element) != napi_ok)
            return addon_failed_call(env), false;
        if (!addon_get_number(env, element, "a dimension", &dim))
            return false;
        if (!(dim >= 0 && dim < 9007199254740992.0)) {
            addon_fail(env, XCVM_INVALID_ARGUMENT, "a dimension: expected an integer of at least 0");
            return false;
        }
        dims[i] = (int64_t)dim;
    }
    *rank = (int)count;
    return true;
}

napi_value addon_dims(napi_env env, int rank, const int64_t *dims)
{
    napi_value array;
    if (napi_create_array_with_length(env, rank > 0 ? (size_t)rank : 0, &array) != napi_ok)
        return addon_failed_call(env);
    for (int i = 0; i < rank; i++)
        if (!addon_set_element(env, array, (uint32_t)i, addon_number(env, (double)dims[i])))
            return NULL;
    return array;
}

/* ---- From JavaScript ---- */

static bool make_strings(napi_env env, int rank, const int64_t *dims, const char *text, size_t text_bytes,
                         napi_value lengths_array, xcvm_value **value)
{
    xcvm_error error;
    void *memory;
    size_t bytes, used = 0, needed = 1;
    if (!addon_get_bytes(env, lengths_array, "lengths of strings", &memory, &bytes))
        return false;
    const uint32_t *given = memory;
    const size_t count = bytes / sizeof *given;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(needed, (size_t)dims[i], &needed))
            needed = SIZE_MAX;
    const char **strings = malloc((count + 1) * sizeof *strings);
    size_t *lengths = malloc((count + 1) * sizeof *lengths);
    bool fits = needed == count && strings != NULL && lengths != NULL;
    for (size_t i = 0; fits && i < count; used += given[i++]) {
        strings[i] = text + used;
        lengths[i] = given[i];
        fits = given[i] <= text_bytes - used;
    }
    const bool made = fits && xcvm_string_tensor_create(NULL, rank, dims, strings, lengths, value, &error) == XCVM_OK;
    if (!fits)
        addon_fail(env, XCVM_INVALID_ARGUMENT, "the strings of a tensor do not fit its shape");
    else if (!made)
        addon_throw(env, &error);
    free(strings);
    free(lengths);
    return made;
}

static bool make_tensor(napi_env env, const napi_value *parts, xcvm_value **value)
{
    double dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    void *bytes;
    size_t count;
    xcvm_error error;
    if (!addon_get_number(env, parts[1], "an element type", &dtype) || !addon_get_dims(env, parts[2], &rank, dims) ||
        !addon_get_bytes(env, parts[3], "elements", &bytes, &count))
        return false;
    if ((xcvm_dtype)dtype == XCVM_STRING)
        return make_strings(env, rank, dims, bytes, count, parts[4], value);
    xcvm_value *tensor;
    if (xcvm_tensor_create(NULL, (xcvm_dtype)dtype, rank, dims, &tensor, &error) != XCVM_OK)
        return addon_throw(env, &error), false;
    if (count != xcvm_value_bytes(tensor)) {
        xcvm_value_release(tensor);
        addon_fail(env, XCVM_INVALID_ARGUMENT, "the elements do not fill the tensor; was the buffer detached?");
        return false;
    }
    if (count > 0)
        memcpy(xcvm_value_data(tensor), bytes, count);
    *value = tensor;
    return true;
}

static bool make_value(napi_env env, napi_value from, int depth, xcvm_value **value);

static bool make_list(napi_env env, xcvm_kind kind, napi_value items, int depth, xcvm_value **value)
{
    uint32_t count, made = 0;
    xcvm_error error;
    if (!addon_get_array(env, items, "the items of a list", &count))
        return false;
    xcvm_value **list = calloc((size_t)count + 1, sizeof(xcvm_value *));
    if (list == NULL) {
        addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for a list");
        return false;
    }
    bool good = true;
    for (; good && made < count; made += good) {
        napi_handle_scope scope;
        napi_value item;
        if (napi_open_handle_scope(env, &scope) != napi_ok) {
            good = false;
            break;
        }
        good = napi_get_element(env, items, made, &item) == napi_ok && make_value(env, item, depth + 1, &list[made]);
        napi_close_handle_scope(env, scope);
    }
    if (!good)
        addon_failed_call(env);
    else if (xcvm_list_create(NULL, kind, count, list, value, &error) != XCVM_OK)
        good = (addon_throw(env, &error), false);
    for (uint32_t i = 0; i < made; i++)
        xcvm_value_release(list[i]);
    free(list);
    return good;
}

static bool make_value(napi_env env, napi_value from, int depth, xcvm_value **value)
{
    uint32_t count;
    napi_value parts[5];
    double kind;
    if (depth > MOST_DEPTH) {
        addon_fail(env, XCVM_INVALID_ARGUMENT, "lists are nested too deep");
        return false;
    }
    if (!addon_get_array(env, from, "a value", &count))
        return false;
    for (uint32_t i = 0; i < 5; i++)
        if (napi_get_element(env, from, i, &parts[i]) != napi_ok)
            return addon_failed_call(env), false;
    if (!addon_get_number(env, parts[0], "the kind of a value", &kind))
        return false;
    return (xcvm_kind)kind == XCVM_KIND_TENSOR ? make_tensor(env, parts, value)
                                               : make_list(env, (xcvm_kind)kind, parts[1], depth, value);
}

bool addon_value_from(napi_env env, napi_value from, xcvm_value **value) { return make_value(env, from, 0, value); }

/* ---- To JavaScript ---- */

/* A value that was copied: the memory of its elements or items, and its index in the array of copies. */
typedef struct seen_value {
    const void *at;
    const xcvm_value *value;
    uint32_t index;
} seen_value;

/* The copies of a value and its items. Open addressing; the capacity is a power of two. */
typedef struct value_copies {
    napi_env env;
    napi_value array; /* JavaScript's array of the copies, which also keeps them alive */
    seen_value *table;
    size_t capacity;
    uint32_t count;
} value_copies;

static bool same_value(const xcvm_value *a, const xcvm_value *b)
{
    const bool is_tensor = xcvm_value_kind(a) == XCVM_KIND_TENSOR;
    return xcvm_value_kind(a) == xcvm_value_kind(b) && xcvm_value_count(a) == xcvm_value_count(b) &&
           (!is_tensor ||
            (xcvm_value_dtype(a) == xcvm_value_dtype(b) && xcvm_value_rank(a) == xcvm_value_rank(b) &&
             memcmp(xcvm_value_dims(a), xcvm_value_dims(b), (size_t)xcvm_value_rank(a) * sizeof(int64_t)) == 0));
}

/* Returns the entry of a value, or the free one where it belongs. */
static seen_value *find_seen(seen_value *table, size_t capacity, const void *at, const xcvm_value *value)
{
    for (size_t i = ((uintptr_t)at >> 4) * (size_t)0x9E3779B1u & (capacity - 1);; i = (i + 1) & (capacity - 1))
        if (table[i].at == NULL || (table[i].at == at && same_value(table[i].value, value)))
            return &table[i];
}

static bool grow_copies(value_copies *copies)
{
    const size_t capacity = copies->capacity != 0 ? 2 * copies->capacity : 16;
    seen_value *table = calloc(capacity, sizeof *table);
    if (table == NULL)
        return false;
    for (size_t i = 0; i < copies->capacity; i++)
        if (copies->table[i].at != NULL)
            *find_seen(table, capacity, copies->table[i].at, copies->table[i].value) = copies->table[i];
    free(copies->table);
    copies->table = table;
    copies->capacity = capacity;
    return true;
}

static napi_value copy_value(value_copies *copies, const xcvm_value *value);

static napi_value copy_strings(napi_env env, const xcvm_value *value, napi_value tensor)
{
    const size_t count = xcvm_value_count(value);
    size_t bytes = 0;
    uint32_t *lengths = malloc((count + 1) * sizeof *lengths);
    if (lengths == NULL)
        return addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for strings");
    for (size_t i = 0, length = 0; i < count; i++) {
        xcvm_value_string_at(value, i, &length);
        lengths[i] = (uint32_t)length;
        bytes += length;
    }
    char *text = malloc(bytes + 1);
    size_t used = 0;
    for (size_t i = 0, length = 0; text != NULL && i < count; used += length, i++) {
        const char *string = xcvm_value_string_at(value, i, &length);
        if (length > 0)
            memcpy(text + used, string, length);
    }
    const bool good = text != NULL && addon_set_element(env, tensor, 3, addon_buffer(env, text, bytes)) &&
                      addon_set_element(env, tensor, 4, addon_buffer(env, lengths, count * sizeof *lengths));
    if (text == NULL)
        addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for strings");
    free(text);
    free(lengths);
    return good ? tensor : NULL;
}

static napi_value copy_tensor(napi_env env, const xcvm_value *value)
{
    napi_value tensor;
    if (napi_create_array(env, &tensor) != napi_ok)
        return addon_failed_call(env);
    if (!addon_set_element(env, tensor, 0, addon_number(env, XCVM_KIND_TENSOR)) ||
        !addon_set_element(env, tensor, 1, addon_number(env, (double)xcvm_value_dtype(value))) ||
        !addon_set_element(env, tensor, 2, addon_dims(env, xcvm_value_rank(value), xcvm_value_dims(value))))
        return NULL;
    if (xcvm_value_dtype(value) == XCVM_STRING)
        return copy_strings(env, value, tensor);
    return addon_set_element(env, tensor, 3, addon_buffer(env, xcvm_value_data(value), xcvm_value_bytes(value)))
               ? tensor
               : NULL;
}

static napi_value copy_list(value_copies *copies, const xcvm_value *value)
{
    const napi_env env = copies->env;
    const size_t count = xcvm_value_count(value);
    napi_value list, items;
    if (napi_create_array(env, &list) != napi_ok || napi_create_array(env, &items) != napi_ok)
        return addon_failed_call(env);
    if (!addon_set_element(env, list, 0, addon_number(env, (double)xcvm_value_kind(value))) ||
        !addon_set_element(env, list, 1, items))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        napi_handle_scope scope;
        if (napi_open_handle_scope(env, &scope) != napi_ok)
            return addon_failed_call(env);
        const bool good = addon_set_element(env, items, (uint32_t)i, copy_value(copies, xcvm_value_item_at(value, i)));
        napi_close_handle_scope(env, scope);
        if (!good)
            return NULL;
    }
    return list;
}

static napi_value copy_value(value_copies *copies, const xcvm_value *value)
{
    const napi_env env = copies->env;
    const xcvm_kind kind = value != NULL ? xcvm_value_kind(value) : XCVM_KIND_NULL;
    napi_value copy;
    if (kind == XCVM_KIND_NULL || kind == XCVM_KIND_OPAQUE)
        return napi_get_null(env, &copy) == napi_ok ? copy : addon_failed_call(env);
    const void *at = NULL;
    if (kind == XCVM_KIND_TENSOR)
        at = xcvm_value_data(value);
    else if (xcvm_value_count(value) > 0)
        at = xcvm_value_item_at(value, 0);
    if (at != NULL && copies->capacity > 0) {
        const seen_value *seen = find_seen(copies->table, copies->capacity, at, value);
        if (seen->at != NULL)
            return napi_get_element(env, copies->array, seen->index, &copy) == napi_ok ? copy : addon_failed_call(env);
    }
    copy = kind == XCVM_KIND_TENSOR ? copy_tensor(env, value) : copy_list(copies, value);
    if (copy == NULL || at == NULL)
        return copy;
    if (2 * (size_t)copies->count >= copies->capacity && !grow_copies(copies))
        return addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for the copies of a list");
    if (!addon_set_element(env, copies->array, copies->count, copy))
        return NULL;
    *find_seen(copies->table, copies->capacity, at, value) = (seen_value){at, value, copies->count++};
    return copy;
}

napi_value addon_value_to(napi_env env, const xcvm_value *value)
{
    value_copies copies = {.env = env};
    if (napi_create_array(env, &copies.array) != napi_ok)
        return addon_failed_call(env);
    const napi_value copy = copy_value(&copies, value);
    free(copies.table);
    return copy;
}
