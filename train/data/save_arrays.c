/* Writing arrays: .npy and .npz files. */
#include "base/clock.h"
#include "base/status.h"
#include "formats/npy_write.h"
#include "formats/npz_write.h"
#include "xcvm/data.h"

xcvm_status xct_array_file_bytes(const xcvm_value *array, uint64_t *bytes, xcvm_error *error)
{
    XCVM_CHECK(error, array != NULL && bytes != NULL, INVALID_ARGUMENT, "array or bytes is NULL");
    return xcvm_npy_size(array, bytes, error);
}

xcvm_status xct_array_save(const xcvm_value *array, uint64_t timeout_ns, xcvm_sink sink, xcvm_error *error)
{
    XCVM_CHECK(error, array != NULL && sink.call != NULL, INVALID_ARGUMENT, "array or sink is NULL");
    return xcvm_npy_write(array, xcvm_clock_deadline(timeout_ns), sink, error);
}

struct xct_archive {
    const xcvm_allocator *allocator;
    xcvm_npz_writer writer;
};

xcvm_status xct_archive_create(xcvm_sink sink, const xcvm_allocator *allocator, xct_archive **archive,
                               xcvm_error *error)
{
    XCVM_CHECK(error, sink.call != NULL && archive != NULL, INVALID_ARGUMENT, "sink or archive is NULL");
    allocator = xcvm_allocator_or_default(allocator);
    xct_archive *a = xcvm_allocate(allocator, sizeof *a);
    XCVM_CHECK(error, a != NULL, OUT_OF_MEMORY, "no memory for an archive");
    *a = (xct_archive){allocator, {.sink = sink, .arena = {.allocator = allocator}}};
    *archive = a;
    return XCVM_OK;
}

xcvm_status xct_archive_add(xct_archive *archive, const char *name, const xcvm_value *array, uint64_t timeout_ns,
                            xcvm_error *error)
{
    XCVM_CHECK(error, archive != NULL && name != NULL && array != NULL, INVALID_ARGUMENT,
               "archive, name or array is NULL");
    return xcvm_npz_add(&archive->writer, name, array, xcvm_clock_deadline(timeout_ns), error);
}

xcvm_status xct_archive_finish(xct_archive *archive, xcvm_error *error)
{
    XCVM_CHECK(error, archive != NULL, INVALID_ARGUMENT, "archive is NULL");
    return xcvm_npz_finish(&archive->writer, error);
}

void xct_archive_destroy(xct_archive *archive)
{
    if (archive == NULL)
        return;
    xcvm_npz_release(&archive->writer);
    xcvm_deallocate(archive->allocator, archive, sizeof *archive);
}
