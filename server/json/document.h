/* JSON documents by jansson, an optional dependency that is loaded on first use. */
#ifndef XCVM_SERVER_JSON_DOCUMENT_H
#define XCVM_SERVER_JSON_DOCUMENT_H

#include "base/status.h"

typedef struct json_t xcs_json;

/* Fails with UNSUPPORTED if the library is missing. */
xcvm_status xcs_json_load_library(xcvm_error *error);
/* Parses a document, which is an object. Objects with equal keys are refused. The library must have been loaded. */
xcvm_status xcs_json_parse(const char *text, size_t length, xcs_json **document, xcvm_error *error);
void xcs_json_release(xcs_json *document);

/* Accessors accept NULL, and return NULL, 0 or false for values of another type. */
const xcs_json *xcs_json_get(const xcs_json *object, const char *key);
bool xcs_json_is_array(const xcs_json *value);
bool xcs_json_is_object(const xcs_json *value);
size_t xcs_json_count(const xcs_json *array);
const xcs_json *xcs_json_at(const xcs_json *array, size_t index);
/* The text is NUL-terminated and contains no other NUL. */
const char *xcs_json_string(const xcs_json *value);
bool xcs_json_integer(const xcs_json *value, int64_t *integer);
bool xcs_json_bool(const xcs_json *value, bool *boolean);

#endif
