/* Messages of protobuf and frames of gRPC. */
#include "server/grpc/protobuf.h"

#include "proto/wire_reader.h"

#include <string.h>

void xcs_put_varint(xcs_text *text, uint64_t value)
{
    char *to = xcs_text_reserve(text, XCVM_VARINT_SIZE);
    if (to != NULL)
        text->count += xcvm_varint_put((uint8_t *)to, value);
}

void xcs_put_integer(xcs_text *text, unsigned field, uint64_t value)
{
    xcs_put_varint(text, (uint64_t)field << 3 | XCVM_WIRE_VARINT);
    xcs_put_varint(text, value);
}

void xcs_put_bytes(xcs_text *text, unsigned field, const void *bytes, size_t count)
{
    xcs_put_varint(text, (uint64_t)field << 3 | XCVM_WIRE_BYTES);
    xcs_put_varint(text, count);
    xcs_text_add(text, bytes, count);
}

void xcs_put_string(xcs_text *text, unsigned field, const char *string)
{
    xcs_put_bytes(text, field, string, strlen(string));
}

size_t xcs_field_begin(xcs_text *text, unsigned field)
{
    xcs_put_varint(text, (uint64_t)field << 3 | XCVM_WIRE_BYTES);
    return text->count;
}

void xcs_field_end(xcs_text *text, size_t begin)
{
    uint8_t length[XCVM_VARINT_SIZE];
    const size_t content = text->count - begin, bytes = xcvm_varint_put(length, content);
    if (xcs_text_reserve(text, bytes) == NULL)
        return;
    memmove(text->at + begin + bytes, text->at + begin, content);
    memcpy(text->at + begin, length, bytes);
    text->count += bytes;
}

size_t xcs_frame_begin(xcs_text *text)
{
    static const char empty[XCS_FRAME_PREFIX];
    xcs_text_add(text, empty, sizeof empty);
    return text->count;
}

void xcs_frame_end(xcs_text *text, size_t begin)
{
    const size_t length = text->count - begin;
    if (text->failed || length > UINT32_MAX) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < 4; i++)
        text->at[begin - 1 - i] = (char)(length >> 8 * i);
}
