/* ZIP archives, as NumPy's .npz files are (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT): the directory,
 * and members that are stored or deflated. */
#ifndef XCVM_FORMATS_ZIP_H
#define XCVM_FORMATS_ZIP_H

#include "base/allocator.h"
#include "base/status.h"

/* The records of an archive: how each begins, and its bytes without what may stand behind it (names, comments). */
#define XCVM_ZIP_LOCAL "PK\3\4"
#define XCVM_ZIP_ENTRY "PK\1\2"
#define XCVM_ZIP_END "PK\5\6"
enum { XCVM_ZIP_LOCAL_SIZE = 30, XCVM_ZIP_ENTRY_SIZE = 46, XCVM_ZIP_END_SIZE = 22 };
/* How a member is packed. */
enum { XCVM_ZIP_STORED = 0, XCVM_ZIP_DEFLATED = 8 };

typedef struct xcvm_zip {
    const unsigned char *bytes;
    uint64_t size;
    uint64_t at, end;     /* the directory */
    uint64_t deadline_ns; /* monotonic clock, behind which unpacking fails with OUT_OF_TIME; 0: none */
} xcvm_zip;

typedef struct xcvm_zip_member {
    const char *name; /* not NUL-terminated */
    size_t name_length;
    unsigned method, flags;
    uint32_t crc;
    uint64_t packed, size, offset;
} xcvm_zip_member;

/* The archive lends `bytes`, and has no deadline. */
xcvm_status xcvm_zip_open(xcvm_zip *zip, const void *bytes, size_t count, xcvm_error *error);
/* Steps to the next entry of the directory; *more is false behind the last. */
xcvm_status xcvm_zip_next(xcvm_zip *zip, xcvm_zip_member *member, bool *more, xcvm_error *error);
/* A member's bytes, with their check sum tested. A stored one's are lent by the archive, and *unpacked is NULL; those
 * of a deflated one lie in *unpacked, of member->size bytes, which the caller releases to `allocator`. */
xcvm_status xcvm_zip_read(const xcvm_zip *zip, const xcvm_zip_member *member, const xcvm_allocator *allocator,
                          const unsigned char **data, unsigned char **unpacked, xcvm_error *error);
/* The first bytes of a member, at most `size`; *got receives how many. Its check sum is not tested. */
xcvm_status xcvm_zip_peek(const xcvm_zip *zip, const xcvm_zip_member *member, void *to, size_t size, size_t *got,
                          xcvm_error *error);

#endif
