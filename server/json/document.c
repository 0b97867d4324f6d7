/* jansson, behind functions of this module. */
#include "server/json/document.h"

#include "base/lazy_library.h"

#ifdef XCVM_HAVE_JANSSON

#include <jansson.h>

#define FUNCTIONS(X)                                                                                                   \
    X(json_loadb)                                                                                                      \
    X(json_delete)                                                                                                     \
    X(json_object_get)                                                                                                 \
    X(json_array_size)                                                                                                 \
    X(json_array_get)                                                                                                  \
    X(json_string_value)                                                                                               \
    X(json_integer_value)
XCVM_LAZY_LIBRARY(jansson, XCVM_JANSSON_FILE, FUNCTIONS)

xcvm_status xcs_json_load_library(xcvm_error *error) { return load_jansson(error); }

xcvm_status xcs_json_parse(const char *text, size_t length, xcs_json **document, xcvm_error *error)
{
    json_error_t why;
    XCVM_CHECK(error, length > 0, INVALID_ARGUMENT, "the JSON document is not valid: it is empty");
    json_t *parsed = jansson.json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    XCVM_CHECK(error, parsed != NULL, INVALID_ARGUMENT, "the JSON document is not valid: %s (line %d, column %d)",
               why.text, why.line, why.column);
    if (!json_is_object(parsed)) {
        xcs_json_release(parsed);
        XCVM_FAIL(error, INVALID_ARGUMENT, "the JSON document is not an object");
    }
    *document = parsed;
    return XCVM_OK;
}

void xcs_json_release(xcs_json *document)
{
    /* json_decref is an inline function that calls the library directly. */
    if (document != NULL && document->refcount != (size_t)-1 &&
        __atomic_sub_fetch(&document->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        jansson.json_delete(document);
}

const xcs_json *xcs_json_get(const xcs_json *object, const char *key)
{
    return object != NULL ? jansson.json_object_get(object, key) : NULL;
}

bool xcs_json_is_array(const xcs_json *value) { return value != NULL && json_is_array(value); }
bool xcs_json_is_object(const xcs_json *value) { return value != NULL && json_is_object(value); }
size_t xcs_json_count(const xcs_json *array) { return array != NULL ? jansson.json_array_size(array) : 0; }

const xcs_json *xcs_json_at(const xcs_json *array, size_t index)
{
    return array != NULL ? jansson.json_array_get(array, index) : NULL;
}

const char *xcs_json_string(const xcs_json *value) { return value != NULL ? jansson.json_string_value(value) : NULL; }

bool xcs_json_integer(const xcs_json *value, int64_t *integer)
{
    if (value == NULL || !json_is_integer(value))
        return false;
    *integer = jansson.json_integer_value(value);
    return true;
}

bool xcs_json_bool(const xcs_json *value, bool *boolean)
{
    if (value == NULL || !json_is_boolean(value))
        return false;
    *boolean = json_is_true(value);
    return true;
}

#else

xcvm_status xcs_json_load_library(xcvm_error *error)
{
    XCVM_FAIL(error, UNSUPPORTED, "this build has no JSON (libjansson-dev was missing)");
}

xcvm_status xcs_json_parse(const char *text, size_t length, xcs_json **document, xcvm_error *error)
{
    (void)text;
    (void)length;
    (void)document;
    return xcs_json_load_library(error);
}

void xcs_json_release(xcs_json *document) { (void)document; }
const xcs_json *xcs_json_get(const xcs_json *object, const char *key) { return (void)key, object; }
bool xcs_json_is_array(const xcs_json *value) { return (void)value, false; }
bool xcs_json_is_object(const xcs_json *value) { return (void)value, false; }
size_t xcs_json_count(const xcs_json *array) { return (void)array, 0; }
const xcs_json *xcs_json_at(const xcs_json *array, size_t index) { return (void)index, array; }
const char *xcs_json_string(const xcs_json *value) { return (void)value, NULL; }
bool xcs_json_integer(const xcs_json *value, int64_t *integer) { return (void)value, (void)integer, false; }
bool xcs_json_bool(const xcs_json *value, bool *boolean) { return (void)value, (void)boolean, false; }

#endif
