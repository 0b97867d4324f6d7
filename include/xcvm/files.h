/*
 * Recognizing files. The conventions of xcvm.h hold here too; the function may be called from any thread.
 */
#ifndef XCVM_FILES_H
#define XCVM_FILES_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a file is, as its bytes tell. */
typedef enum xcvm_file_kind {
    XCVM_FILE_UNKNOWN,
    XCVM_FILE_PROGRAM,
    XCVM_FILE_ASSEMBLY, /* the text of a program */
    XCVM_FILE_MODEL,    /* ONNX */
    XCVM_FILE_ARRAYS,   /* .npy, .npz, .safetensors */
    XCVM_FILE_IMAGE,    /* of a format that data sets can have */
    XCVM_FILE_OTHER     /* a file of another system, an archive, a pointer to a file, a page, a text */
} xcvm_file_kind;
/* Recognizes a file. `bytes` is the whole of it, or its beginning. Where it is recognized, and is no `wanted`, `text`
 * (of `size` bytes; may be NULL) becomes a sentence that says what it is and what to do, as "this is a Git LFS pointer,
 * not the file itself; run "git lfs pull" in the repository"; else it becomes empty. Functions that load files say so
 * in their errors already. */
XCVM_API xcvm_file_kind xcvm_recognize(const void *bytes, size_t count, xcvm_file_kind wanted, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
