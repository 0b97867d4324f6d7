/* ZIP archives, such as NumPy's .npz files (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT): the
 * directory, and members that are stored or deflated. */
#ifndef XCVM_FORMATS_ZIP_H
#define XCVM_FORMATS_ZIP_H

#include "base/allocator.h"
#include "base/status.h"

/* Signatures and sizes of the records of an archive, without names and comments. */
#define XCVM_ZIP_LOCAL "PK\3\4"
#define XCVM_ZIP_ENTRY "PK\1\2"
#define XCVM_ZIP_END "PK\5\6"
enum { XCVM_ZIP_LOCAL_SIZE = 30, XCVM_ZIP_ENTRY_SIZE = 46, XCVM_ZIP_END_SIZE = 22 };
/* Compression methods of members. */
enum { XCVM_ZIP_STORED = 0, XCVM_ZIP_DEFLATED = 8 };

typedef struct xcvm_zip {
    const unsigned char *bytes;
    uint64_t size;
    uint64_t at, end;     /* the directory */
    uint64_t deadline_ns; /* deadline of unpacking on the monotonic clock, OUT_OF_TIME after it; 0: none */
} xcvm_zip;

typedef struct xcvm_zip_member {
    const char *name; /* not NUL-terminated */
    size_t name_length;
    unsigned method, flags;
    uint32_t crc;
    uint64_t packed, size, offset;
} xcvm_zip_member;

/* The archive borrows `bytes`, and has no deadline. */
xcvm_status xcvm_zip_open(xcvm_zip *zip, const void *bytes, size_t count, xcvm_error *error);
/* Reads the next entry of the directory. Sets *more to false after the last. */
xcvm_status xcvm_zip_next(xcvm_zip *zip, xcvm_zip_member *member, bool *more, xcvm_error *error);
/* Returns a member's bytes and verifies their check sum. Bytes of a stored member are lent by the archive, and
 * *unpacked is NULL. Those of a deflated member are in *unpacked, which has member->size bytes; the caller releases it
 * to `allocator`. */
xcvm_status xcvm_zip_read(const xcvm_zip *zip, const xcvm_zip_member *member, const xcvm_allocator *allocator,
                          const unsigned char **data, unsigned char **unpacked, xcvm_error *error);
/* Returns the first bytes of a member, at most `size`, and their number in *got. Does not verify the check sum. */
xcvm_status xcvm_zip_peek(const xcvm_zip *zip, const xcvm_zip_member *member, void *to, size_t size, size_t *got,
                          xcvm_error *error);

#endif
