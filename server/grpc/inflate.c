/* Decompression of messages. */
#include "server/grpc/inflate.h"

#include "base/lazy_library.h"

#include <string.h>

#ifdef XCVM_HAVE_GZIP

#include <zlib.h>

#define FUNCTIONS(X)                                                                                                   \
    X(inflateInit2_)                                                                                                   \
    X(inflate)                                                                                                         \
    X(inflateReset)                                                                                                    \
    X(inflateEnd)
XCVM_LAZY_LIBRARY(zlib, XCVM_GZIP_FILE, FUNCTIONS)

struct xcs_inflater {
    xcvm_allocator allocator;
    z_stream stream;
    bool complete;
};

/* zlib does not pass the size when it releases memory. */
typedef union block {
    size_t bytes;
    max_align_t alignment;
} block;

static void *allocate_block(void *user, unsigned items, unsigned size)
{
    size_t bytes;
    if (!xcvm_size_mul(items, size, &bytes) || !xcvm_size_add(bytes, sizeof(block), &bytes))
        return NULL;
    block *allocated = xcvm_allocate(user, bytes);
    if (allocated == NULL)
        return NULL;
    allocated->bytes = bytes;
    return allocated + 1;
}

static void release_block(void *user, void *memory)
{
    block *allocated = (block *)memory - 1;
    xcvm_deallocate(user, allocated, allocated->bytes);
}

bool xcs_inflate_supports(const char *encoding)
{
    return (strcmp(encoding, "gzip") == 0 || strcmp(encoding, "deflate") == 0) && load_zlib(NULL) == XCVM_OK;
}

xcvm_status xcs_inflater_create(const xcvm_allocator *allocator, const char *encoding, xcs_inflater **inflater,
                                xcvm_error *error)
{
    /* Window bits: 32 KiB, and 16 for the header of gzip in place of zlib's. */
    const int window = strcmp(encoding, "gzip") == 0 ? 15 + 16 : 15;
    XCVM_TRY(load_zlib(error));
    xcs_inflater *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory to decompress a message");
    created->allocator = *allocator;
    created->stream = (z_stream){.zalloc = allocate_block, .zfree = release_block, .opaque = &created->allocator};
    if (zlib.inflateInit2_(&created->stream, window, ZLIB_VERSION, (int)sizeof created->stream) != Z_OK) {
        xcvm_deallocate(allocator, created, sizeof *created);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory to decompress a message");
    }
    *inflater = created;
    return XCVM_OK;
}

void xcs_inflater_destroy(xcs_inflater *inflater)
{
    if (inflater == NULL)
        return;
    (void)zlib.inflateEnd(&inflater->stream);
    const xcvm_allocator allocator = inflater->allocator;
    xcvm_deallocate(&allocator, inflater, sizeof *inflater);
}

void xcs_inflater_reset(xcs_inflater *inflater)
{
    (void)zlib.inflateReset(&inflater->stream);
    inflater->complete = false;
}

xcvm_status xcs_inflater_feed(xcs_inflater *inflater, const uint8_t *bytes, size_t count, xcs_inflater_sink sink,
                              xcvm_error *error)
{
    uint8_t piece[16384];
    z_stream *stream = &inflater->stream;
    XCVM_CHECK(error, !inflater->complete || count == 0, INVALID_ARGUMENT,
               "bytes follow the compressed data of a message");
    stream->next_in = (Bytef *)(uintptr_t)bytes;
    stream->avail_in = (unsigned)count;
    do {
        stream->next_out = piece;
        stream->avail_out = sizeof piece;
        const int result = zlib.inflate(stream, Z_NO_FLUSH);
        XCVM_CHECK(error, result != Z_MEM_ERROR, OUT_OF_MEMORY, "no memory to decompress a message");
        XCVM_CHECK(error, result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, INVALID_ARGUMENT,
                   "the compressed data of a message are not valid");
        const size_t made = sizeof piece - stream->avail_out;
        XCVM_CHECK(error, made == 0 || sink.call(sink.user, piece, made), CANCELLED, "the message is not needed");
        inflater->complete = result == Z_STREAM_END;
    } while (!inflater->complete && (stream->avail_in > 0 || stream->avail_out == 0));
    XCVM_CHECK(error, stream->avail_in == 0, INVALID_ARGUMENT, "bytes follow the compressed data of a message");
    return XCVM_OK;
}

bool xcs_inflater_is_complete(const xcs_inflater *inflater) { return inflater->complete; }

#else

bool xcs_inflate_supports(const char *encoding)
{
    (void)encoding;
    return false;
}

xcvm_status xcs_inflater_create(const xcvm_allocator *allocator, const char *encoding, xcs_inflater **inflater,
                                xcvm_error *error)
{
    (void)allocator;
    (void)encoding;
    (void)inflater;
    XCVM_FAIL(error, UNSUPPORTED, "this build cannot decompress messages (zlib1g-dev was missing)");
}

void xcs_inflater_destroy(xcs_inflater *inflater) { (void)inflater; }

void xcs_inflater_reset(xcs_inflater *inflater) { (void)inflater; }

xcvm_status xcs_inflater_feed(xcs_inflater *inflater, const uint8_t *bytes, size_t count, xcs_inflater_sink sink,
                              xcvm_error *error)
{
    (void)inflater;
    (void)bytes;
    (void)count;
    (void)sink;
    XCVM_FAIL(error, UNSUPPORTED, "this build cannot decompress messages (zlib1g-dev was missing)");
}

bool xcs_inflater_is_complete(const xcs_inflater *inflater)
{
    (void)inflater;
    return false;
}

#endif
