/* Bytes that a sink receives. */
#include "web/src/bytes.h"
#include "web/src/exports.h"

#include <stdlib.h>
#include <string.h>

web_bytes *web_bytes_create(xcvm_error *error)
{
    web_bytes *bytes = calloc(1, sizeof *bytes);
    if (bytes == NULL)
        *error = (xcvm_error){.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for the result"};
    return bytes;
}

bool web_bytes_add(void *user, const void *piece, size_t count)
{
    web_bytes *bytes = user;
    if (count > bytes->capacity - bytes->count) {
        if (count > SIZE_MAX / 2 - bytes->count) {
            bytes->failed = true;
            return false;
        }
        size_t capacity = bytes->capacity <= SIZE_MAX / 4 ? bytes->capacity * 2 : bytes->count + count;
        if (capacity < bytes->count + count)
            capacity = bytes->count + count;
        unsigned char *grown = realloc(bytes->at, capacity);
        if (grown == NULL) {
            bytes->failed = true;
            return false;
        }
        bytes->at = grown;
        bytes->capacity = capacity;
    }
    if (count > 0)
        memcpy(bytes->at + bytes->count, piece, count);
    bytes->count += count;
    return true;
}

void WEB_EXPORT(web_bytes_destroy)(web_bytes *bytes)
{
    if (bytes != NULL)
        free(bytes->at);
    free(bytes);
}

web_bytes *web_bytes_finish(web_bytes *bytes, xcvm_status status, xcvm_error *error)
{
    if (status == XCVM_OK)
        return bytes;
    if (bytes->failed)
        *error = (xcvm_error){.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for the result"};
    web_bytes_destroy(bytes);
    return NULL;
}
